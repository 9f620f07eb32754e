"""top-k, top-p and min-p as one threshold on each row's probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from sgc_ir.params import SamplingParams

_FIRST_TRY = 1024  # candidates looked at before a whole vocabulary is sorted
# The same on a CPU: ids at least so likely. A few passes cost less than sorting what is unlikely.
_LEAST_LIKELY = tuple(2.0**-n for n in (8, 11, 14, 17, 20))
_ROUNDING = 1e-6  # sums of float32 probabilities are off by less
# Of a row without few likely ids a sample tells about which is the last one kept: one of so many
# ids; its sum of the unlikely ones, which weigh little each, is rarely off by a larger share.
_STRIDE, _DOUBT = 32, 0.1
_MANY = 1500  # of so many likely ids none is picked out and sorted
_ZERO = np.float32(0.0)

_Floats = npt.NDArray[np.float32]


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
        picked = probs if len(cut) == len(params) else probs[rows]
        least = rank_thresholds if probs.device.type != "cpu" else rank_thresholds_on_cpu
        threshold[rows] = torch.maximum(threshold[rows], least(picked, chosen))
    _clear_below(probs, threshold)


def _clear_below(probs: torch.Tensor, threshold: torch.Tensor) -> None:
    if probs.device.type != "cpu":
        probs.masked_fill_(probs < threshold[:, None], 0.0)
        return
    # On a CPU a twentieth of the time of a mask; it clears what equals its limit, too.
    limits = np.nextafter(threshold.numpy(), np.float32(-1.0)).tolist()
    for row, limit in zip(probs, limits, strict=True):
        torch.threshold_(row, limit, 0.0)


def rank_thresholds_on_cpu(probs: torch.Tensor, params: Sequence[SamplingParams]) -> torch.Tensor:
    """What `rank_thresholds` gives, row by row: only what may be kept is sorted."""
    masses = probs.sum(-1).numpy()
    rows = zip(probs.numpy(), masses, params, strict=True)
    found = [_least_kept(row, mass, p.top_k, p.top_p) for row, mass, p in rows]
    return torch.from_numpy(np.array(found, np.float32))


def _least_kept(row: _Floats, mass: np.float32, top_k: int, top_p: float) -> np.float32:
    """The smallest probability that top-k and top-p keep."""
    share = np.float32(top_p)
    if not 0 < top_k < len(row):
        return _least_of_share(row, mass, share * mass)
    best = np.sort(_likeliest(row, top_k))[::-1][:top_k]
    if share >= 1.0:
        return best[-1]  # type: ignore[no-any-return]
    return best[_count_before(best, 0.0, share * best.sum()) - 1]  # type: ignore[no-any-return]


def _likeliest(row: _Floats, count: int) -> _Floats:
    """`count` of the likeliest ids' probabilities at least, in no order."""
    for least in _LEAST_LIKELY:
        found = row[row >= np.float32(least)]
        if len(found) >= count:
            return found
    return row


def _least_of_share(row: _Floats, mass: np.float32, target: np.float32) -> np.float32:
    """The smallest of the likeliest ids' probabilities that hold `target` in sum."""
    if target >= mass:
        return row.min()  # type: ignore[no-any-return]
    best = row
    for least in _LEAST_LIKELY:
        likely = row >= np.float32(least)
        if np.count_nonzero(likely) > _MANY:
            known = _least_within(row, *_guess(row, mass - target), target)
            if known is not None:
                return known
            break
        found = row[likely]
        if found.sum(dtype=np.float64) > target + _ROUNDING:
            best = found
            break
    best = np.sort(best)[::-1]
    return best[_count_before(best, 0.0, target) - 1]  # type: ignore[no-any-return]


def _guess(row: _Floats, rest: np.float32) -> tuple[np.float32, np.float32]:
    """Probabilities between which, by a sample, the ids that are less likely hold `rest`."""
    sample = np.sort(row[::_STRIDE])
    below = _STRIDE * sample.cumsum(dtype=np.float64)
    first, last = np.searchsorted(below, (rest * (1 - _DOUBT), rest * (1 + _DOUBT)))
    return sample[max(first - 1, 0)], sample[min(last + 1, len(sample) - 1)]


def _least_within(
    row: _Floats, low: np.float32, high: np.float32, target: np.float32
) -> np.float32 | None:
    """What `_least_of_share` gives, if it is in [low, high): then nothing else is sorted."""
    likelier = torch.nn.functional.threshold(
        torch.from_numpy(row), float(np.nextafter(high, _ZERO)), 0.0
    )
    above = float(likelier.sum(dtype=torch.float64))
    best = np.sort(row[(row >= low) & (row < high)])[::-1]
    if not (above < target - _ROUNDING and above + best.sum(dtype=np.float64) > target + _ROUNDING):
        return None
    return best[_count_before(best, above, target) - 1]  # type: ignore[no-any-return]


def _count_before(best: _Floats, above: float, target: np.float32) -> int:
    """How many of `best`, in falling order, have less than `target` before them: one at least.

    Args:
        above: sum of what is larger.
    """
    before = (above + best.cumsum(dtype=np.float64)).astype(np.float32) - best
    return max(1, int(np.count_nonzero(before < target)))


def rank_thresholds(probs: torch.Tensor, params: Sequence[SamplingParams]) -> torch.Tensor:
    """`[rows]` float32, the smallest probability that top-k and top-p keep."""
    vocab = probs.shape[-1]
    top_k = torch.tensor([p.top_k if p.top_k > 0 else vocab for p in params], device=probs.device)
    top_p = torch.tensor([p.top_p for p in params]).to(probs)
    size = min(vocab, max(_FIRST_TRY, int(top_k.where(top_k < vocab, 0).max())))
    best = probs.topk(size).values  # descending
    open_end = (top_k > size) & ((best.sum(-1) < top_p) | (top_p >= 1.0))
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
    inside_p = (before < (top_p * mass)[:, None]) | (top_p >= 1.0)[:, None]
    kept = inside_p & (rank < top_k[:, None])
    count = kept.sum(-1).clamp(min=1)
    return best.gather(-1, (count - 1)[:, None])[:, 0]
