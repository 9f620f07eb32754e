"""top-k, top-p and min-p as one threshold on each row's probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from sgc_ir.params import SamplingParams

_FIRST_TRY = 1024  # candidates looked at before a whole vocabulary is sorted


def filter_probs(probs: torch.Tensor, params: Sequence[SamplingParams]) -> None:
    """Set to zero, in place, what the filters take out of `probs` (`[rows, vocab]` float32).

    top-k keeps the k most likely ids; top-p then the smallest set that holds `top_p` of the mass
    that is left; min-p then those with at least `min_p` times the largest probability. Ids as
    likely as the last one kept are kept too, so no order of sorting shows. Rows stay
    unnormalised.
    """
    cut = [i for i, p in enumerate(params) if p.top_k > 0 or p.top_p < 1.0]
    if not cut and all(p.min_p == 0.0 for p in params):
        return
    threshold = torch.tensor([p.min_p for p in params]).to(probs) * probs.amax(-1)
    if cut:
        chosen = [params[i] for i in cut]
        rows = torch.tensor(cut, device=probs.device)
        threshold[rows] = torch.maximum(threshold[rows], _rank_threshold(probs[rows], chosen))
    probs.masked_fill_(probs < threshold[:, None], 0.0)


def _rank_threshold(probs: torch.Tensor, params: Sequence[SamplingParams]) -> torch.Tensor:
    vocab = probs.shape[-1]
    top_k = torch.tensor([p.top_k if p.top_k > 0 else vocab for p in params], device=probs.device)
    top_p = torch.tensor([p.top_p for p in params]).to(probs)
    size = min(vocab, max(_FIRST_TRY, int(top_k.where(top_k < vocab, 0).max())))
    best = probs.topk(size).values  # descending
    open_end = (top_k > size) & (best.sum(-1) < top_p)
    if size < vocab and bool(open_end.any()):
        best = probs.sort(descending=True).values
    return _last_kept(best, probs, top_k, top_p)


def _last_kept(
    best: torch.Tensor, probs: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor
) -> torch.Tensor:
    rank = torch.arange(best.shape[-1], device=best.device)
    inside = best.masked_fill(rank >= top_k[:, None], 0.0)
    mass = torch.where(top_k < probs.shape[-1], inside.sum(-1), probs.sum(-1))
    before = inside.cumsum(-1) - inside
    kept = (before < (top_p * mass)[:, None]) & (rank < top_k[:, None])
    count = kept.sum(-1).clamp(min=1)
    return best.gather(-1, (count - 1)[:, None])[:, 0]
