"""Changes to the logits before the softmax: penalties, bias, ids that are held back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from sgc_runtime.sampling.row import SamplingRow


def adjust_logits(logits: torch.Tensor, rows: Sequence[SamplingRow]) -> None:
    """Apply, in place and in this order, to `[rows, vocab]` float32:

    1. repetition penalty r: of each id in prompt or sample, x / r if x > 0, else x * r;
    2. frequency and presence penalty: x - frequency * count - presence, for sampled ids;
    3. logit bias;
    4. minus infinity for ids that `min_tokens` holds back.
    """
    _repetition(logits, rows)
    _add(logits, ((i, t, d) for i, row in enumerate(rows) for t, d in _count_penalties(row)))
    _add(logits, ((i, t, b) for i, row in enumerate(rows) for t, b in row.bias.items()))
    held = [(i, t) for i, row in enumerate(rows) for t in row.held_back_now]
    if held:
        index = torch.tensor(held, device=logits.device).T
        logits[index[0], index[1]] = -torch.inf


def _repetition(logits: torch.Tensor, rows: Sequence[SamplingRow]) -> None:
    places = [(i, t) for i, row in enumerate(rows) for t in row.seen]
    if not places:
        return
    index = torch.tensor(places, device=logits.device).T
    factor = torch.tensor([r.params.repetition_penalty for r in rows], device=logits.device)
    r = factor[index[0]]
    x = logits[index[0], index[1]]
    logits[index[0], index[1]] = torch.where(x > 0, x / r, x * r)


def _count_penalties(row: SamplingRow) -> Iterable[tuple[int, float]]:
    f, p = row.params.frequency_penalty, row.params.presence_penalty
    return ((token, -f * count - p) for token, count in row.counts.items())


def _add(logits: torch.Tensor, changes: Iterable[tuple[int, int, float]]) -> None:
    found = list(changes)
    if not found:
        return
    row, token, delta = zip(*found, strict=True)
    logits[torch.tensor(row), torch.tensor(token)] += torch.tensor(delta).to(logits)
