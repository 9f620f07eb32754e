"""Masks of constrained rows: what they allow, how likely the model finds it, what is canonical."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from sgc_kernels.masks.apply import apply_token_mask
from sgc_runtime.sampling.row import SamplingRow

MAX_REJECTED = 32  # ids that may turn out not to be canonical before the best is taken as it is
_LEAST_SHARE = 1e-30  # below it the sum of float32 probabilities says little


class TokenRule(Protocol):
    """One sample's place in a constraint."""

    @property
    def end_allowed(self) -> bool:
        """Whether the text is complete as it is, so that EOS may follow."""
        ...

    def mask(self) -> npt.NDArray[np.int32]:
        """Packed bits of the ids that may follow, EOS not among them."""
        ...

    def is_canonical(self, token: int) -> bool | None:
        """Whether the ids so far and `token` are those that the tokenizer gives for their text;
        None where that cannot be said."""
        ...


def stacked_masks(rows: Sequence[SamplingRow]) -> torch.Tensor:
    """int32 `[rows, words]`: the masks of rows that have been prepared."""
    words = []
    for row in rows:
        assert row.mask is not None, "a row that was not prepared"
        words.append(row.mask)
    return torch.from_numpy(np.stack(words))


def mask_logits(logits: torch.Tensor, masks: torch.Tensor, bound: Sequence[int]) -> None:
    """Make minus infinity, in place, what `masks`, one for each of the rows `bound`, rule out."""
    index = None if len(bound) == len(logits) else torch.tensor(bound, device=logits.device)
    apply_token_mask(logits, masks, index)


def allowed_shares(logits: torch.Tensor, masks: torch.Tensor, bound: Sequence[int]) -> list[float]:
    """For each of the rows `bound`: the log of the model's probability of all ids together that
    its mask allows, in nats; 0 where it rules out nothing.

    Args:
        logits: `[rows, vocab]` float32, as the model gives them.
        masks: int32 `[bound, words]`.
    """
    chosen = logits if len(bound) == len(logits) else logits[torch.tensor(bound)]
    probs = chosen.softmax(-1)
    apply_token_mask(probs, masks)
    sums = probs.clamp_(min=0.0).sum(-1).clamp_(max=1.0).tolist()
    return [
        log(share) if share >= _LEAST_SHARE else _small_share(chosen[i], masks[i])
        for i, share in enumerate(sums)
    ]


def _small_share(logits: torch.Tensor, mask: torch.Tensor) -> float:
    allowed = logits[None].clone()
    apply_token_mask(allowed, mask[None])
    every, some = (numbers.to(torch.float64).logsumexp(-1) for numbers in (logits, allowed[0]))
    return float(some - every)


def first_canonical(row: SamplingRow, candidates: Iterator[int]) -> int:
    """The first of `candidates`, of which there is one at least, that is canonical or ends the
    text; the first of all where none of `MAX_REJECTED` is."""
    rule = row.rule
    assert rule is not None
    best = -1
    for tried, token in enumerate(candidates):
        if token < 0 or token in row.end_ids or rule.is_canonical(token) is not False:
            return token if token >= 0 else best
        best = token if tried == 0 else best
        if tried + 1 == MAX_REJECTED:
            break
    return best
