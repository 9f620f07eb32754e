"""The sampling kernels in plain torch, for machines without Triton and for tests: arguments and
results as in `in_triton`, numbers as in `reference`."""

from __future__ import annotations

import torch

from sgc_kernels.gpu.sampling import reference
from sgc_kernels.gpu.sampling.params import (
    Adjustments,
    IdTable,
    RowParams,
    Sampled,
    TokenList,
    TokenMasks,
    Workspace,
)


def greedy(
    logits: torch.Tensor,
    work: Workspace,
    masks: TokenMasks | None = None,
    logprobs: bool = False,
    out: Sampled | None = None,
    kept: IdTable | None = None,
) -> Sampled:
    """See `greedy.greedy`."""
    work.check(logits)
    return _store(logits, reference.greedy(logits, masks), masks, logprobs, out, kept)


def draw(
    logits: torch.Tensor,
    params: RowParams,
    work: Workspace,
    masks: TokenMasks | None = None,
    excluded: TokenList | None = None,
    filters: bool = True,
    logprobs: bool = False,
    out: Sampled | None = None,
    kept: IdTable | None = None,
) -> Sampled:
    """See `draw.draw`."""
    work.check(logits)
    tokens = reference.draw(logits, params, masks, excluded).tokens
    return _store(logits, tokens, masks, logprobs, out, kept)


def _store(
    logits: torch.Tensor,
    tokens: torch.Tensor,
    masks: TokenMasks | None,
    logprobs: bool,
    out: Sampled | None,
    kept: IdTable | None,
) -> Sampled:
    out = out or Sampled.empty(len(logits), logits.device, logprobs)
    out.tokens.copy_(tokens)
    if kept is not None:
        there = (kept.places[: len(logits)] >= 0).nonzero()[:, 0]
        kept.ids[kept.places[there].long()] = out.tokens[there].clamp(min=0)
    if logprobs:
        assert out.logprobs is not None
        assert out.shares is not None
        own, shares = reference.log_probabilities(logits, tokens, masks)
        out.logprobs.copy_(own)
        out.shares.copy_(shares)
    return out


def logprobs_of(
    logits: torch.Tensor,
    rows: torch.Tensor,
    ids: torch.Tensor,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """See `logprobs.logprobs_of`."""
    found = reference.logprobs_of(logits, rows, ids.clamp(min=0)).to(logits.device)
    return found if out is None else out.copy_(found)


def apply_masks(logits: torch.Tensor, masks: TokenMasks) -> None:
    """See `masking.apply_masks`."""
    allowed = reference.allowed_tokens(masks, *logits.shape)
    logits.masked_fill_(~allowed.to(logits.device), -torch.inf)


def adjust(logits: torch.Tensor, changes: Adjustments) -> None:
    """See `penalties.adjust`."""
    at = _places(changes)
    changes.before.copy_(logits[at])
    logits[at] = reference.adjust(logits, changes).to(logits)[at]


def restore(logits: torch.Tensor, changes: Adjustments) -> None:
    """See `penalties.restore`."""
    logits[_places(changes)] = changes.before.to(logits.dtype)


def _places(changes: Adjustments) -> tuple[torch.Tensor, torch.Tensor]:
    lengths = changes.starts.diff().long()
    rows = torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths)
    return rows, changes.ids.long()
