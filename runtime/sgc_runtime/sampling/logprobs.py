"""Log-probabilities of sampled tokens and of the likeliest ones beside them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from sgc_runtime.sampling.row import TokenLogprobs

_ROWS_AT_ONCE = 32  # the sum over a vocabulary needs as much memory as its logits again

Numbers = npt.NDArray[np.int64]


def token_logprobs(
    logits: torch.Tensor, ids: Sequence[int], num_top: Sequence[int]
) -> list[TokenLogprobs]:
    """For each row of `logits` (`[rows, vocab]` float32): of `ids[row]`, and the `num_top[row]`
    best."""
    logp = logits.log_softmax(-1)
    index = torch.tensor(list(ids), device=logits.device)
    own: list[float] = logp.gather(-1, index[:, None])[:, 0].tolist()
    size = min(max(num_top, default=0), logits.shape[-1])
    if size == 0:
        return [TokenLogprobs(x, ()) for x in own]
    best = logp.topk(size)
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    tops = [tuple(zip(i, v, strict=True)) for i, v in pairs]
    return [TokenLogprobs(x, top[:n]) for x, top, n in zip(own, tops, num_top, strict=True)]


def next_token_logprobs(logits: torch.Tensor, rows: Numbers, ids: Numbers) -> list[float]:
    """Log-probability of `ids[i]` under row `rows[i]` of `logits` (`[rows, vocab]` float32)."""
    row = torch.from_numpy(rows).to(logits.device)
    index = torch.from_numpy(ids).to(logits.device)
    sums = [part.logsumexp(-1) for part in torch.split(logits, _ROWS_AT_ONCE)]
    chosen = logits[row, index] - torch.cat(sums)[row]
    values: list[float] = chosen.tolist()
    return values
