"""Changes to the logits before the softmax: penalties, bias, ids that are held back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from sgc_runtime.sampling.row import SamplingRow
from sgc_runtime.sampling.token_counts import Ints

_TINY, _HUGE = 1e-37, 1e37  # far from the ends of float32, so that bias and penalties may follow


def adjust_logits(logits: torch.Tensor, rows: Sequence[SamplingRow]) -> None:
    """Apply, in place and in this order, to `[rows, vocab]` float32:

    1. repetition penalty r: of each id in prompt or sample, x / r if x > 0, else x * r, kept
       finite (r may be anything above 0);
    2. frequency and presence penalty: x - frequency * count - presence, for sampled ids;
    3. logit bias;
    4. minus infinity for ids that `min_tokens` holds back, and for all that healing rules out.
    """
    _repetition(logits, rows)
    _add(logits, [row.counts.ids for row in rows], [_count_penalties(row) for row in rows])
    _add(logits, [row.bias_ids for row in rows], [row.bias for row in rows])
    held = [(i, t) for i, row in enumerate(rows) for t in row.held_back_now]
    if held:
        index = torch.tensor(held, device=logits.device).T
        logits[index[0], index[1]] = -torch.inf
    for i, row in enumerate(rows):
        allowed = row.allowed_now
        if allowed is not None:
            _keep_only(logits[i], allowed)


def _keep_only(logits: torch.Tensor, allowed: Ints) -> None:
    index = torch.from_numpy(allowed).to(logits.device)
    kept = logits[index]
    logits.fill_(-torch.inf)[index] = kept


def _repetition(logits: torch.Tensor, rows: Sequence[SamplingRow]) -> None:
    index = _index(logits, [row.seen.ids for row in rows])
    factors = [min(max(row.params.repetition_penalty, _TINY), _HUGE) for row in rows]
    r = torch.tensor(factors, device=logits.device)[index[0]]
    x = logits[index]
    logits[index] = torch.where(x > 0, x / r, x * r).clamp(-_HUGE, _HUGE)


def _count_penalties(row: SamplingRow) -> npt.NDArray[np.float64]:
    counts = row.counts.counts.astype(np.float64)
    return -row.params.frequency_penalty * counts - row.params.presence_penalty


def _add(
    logits: torch.Tensor, ids: Sequence[Ints], changes: Sequence[npt.NDArray[np.float64]]
) -> None:
    """Add `changes[row]` at `ids[row]`, which are distinct."""
    logits[_index(logits, ids)] += torch.from_numpy(np.concatenate(changes)).to(logits)


def _index(logits: torch.Tensor, ids: Sequence[Ints]) -> tuple[torch.Tensor, torch.Tensor]:
    """Row and column of each id of each row."""
    rows = np.repeat(np.arange(len(ids)), [len(x) for x in ids])
    columns = np.concatenate(ids)
    return torch.from_numpy(rows).to(logits.device), torch.from_numpy(columns).to(logits.device)
