"""What the sampling kernels compute, in plain torch with 64-bit numbers."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch

from sgc_kernels.gpu.sampling.params import (
    Adjustments,
    RowParams,
    Sampled,
    TokenList,
    TokenMasks,
)

_GREEDY_TEMPERATURE = 1e-6
_HOTTEST = 1e38
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)

_Ints = npt.NDArray[np.int64]
_Bits = npt.NDArray[np.uint64]


def allowed_tokens(masks: TokenMasks | None, rows: int, vocab: int) -> torch.Tensor:
    """bool `[rows, vocab]`: what the mask of each row allows."""
    if masks is None:
        return torch.ones(rows, vocab, dtype=torch.bool)
    words, index = masks.words.cpu(), masks.rows[:rows].cpu()
    bits = ((words[:, :, None] >> torch.arange(32, dtype=torch.int32)) & 1).bool().flatten(1)
    bits = torch.nn.functional.pad(bits, (0, max(0, vocab - bits.shape[1])))[:, :vocab]
    return bits[index.clamp(min=0).long()] | (index < 0)[:, None]


def masked_logits(logits: torch.Tensor, masks: TokenMasks | None) -> torch.Tensor:
    """float64 `[rows, vocab]` on the CPU, minus infinity where a token is not allowed."""
    allowed = allowed_tokens(masks, *logits.shape)
    return logits.cpu().double().masked_fill(~allowed, -math.inf)


def greedy(logits: torch.Tensor, masks: TokenMasks | None = None) -> torch.Tensor:
    """int64 `[rows]`: the largest allowed logit, the first of equals; -1 if it is not finite."""
    x = masked_logits(logits, masks)
    best = x.argmax(-1)
    top = x.gather(-1, best[:, None])[:, 0]
    return torch.where(torch.isfinite(top), best, -1)


def kept(
    logits: torch.Tensor, params: RowParams, masks: TokenMasks | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """What may be drawn (bool `[rows, vocab]`), and its probabilities (float64); both are empty
    where the largest logit is not a finite number, or the row is greedy."""
    x = masked_logits(logits, masks)
    top = x.amax(-1, keepdim=True)
    heat = params.temperature[: len(x)].cpu().double()
    drawn = torch.isfinite(top[:, 0]) & (heat >= _GREEDY_TEMPERATURE)
    weights = ((x - top) / heat.clamp(_GREEDY_TEMPERATURE, _HOTTEST)[:, None]).exp()
    weights = torch.where(drawn[:, None], weights, 0.0)
    sets = torch.zeros(x.shape, dtype=torch.bool)
    for row in drawn.nonzero()[:, 0].tolist():
        top_k, top_p, min_p = (int(params.top_k[row]), *_shares(params, row))
        least = _least_kept(x[row], weights[row], top_k, top_p, min_p)
        sets[row] = (x[row] >= least) & (weights[row] > 0)
    weights = torch.where(sets, weights, 0.0)
    return sets, weights / weights.sum(-1, keepdim=True).clamp(min=1e-300)


def _shares(params: RowParams, row: int) -> tuple[float, float]:
    return float(params.top_p[row]), float(params.min_p[row])


def _least_kept(
    x: torch.Tensor, weights: torch.Tensor, top_k: int, top_p: float, min_p: float
) -> torch.Tensor:
    """The smallest logit that all filters keep."""
    order = x.sort(descending=True, stable=True)
    best = weights[order.indices]
    count = top_k if 0 < top_k < len(x) else len(x)
    if top_p < 1.0:
        inside = best[:count]
        before = inside.cumsum(0) - inside
        count = max(1, int((before < top_p * inside.sum()).sum()))
    likely = x[weights >= min_p].amin()
    return torch.maximum(order.values[count - 1], likely)


def exponential_noise(seed: int, step: int, places: _Ints) -> npt.NDArray[np.float64]:
    """float64: the noise of places (int64 token ids) under a row's seed and step."""
    with np.errstate(over="ignore"):
        mixed = _mix(_mix(_bits(seed) + _GOLDEN) ^ ((_bits(step) + np.uint64(1)) * _GOLDEN))
        bits = _mix(mixed + (places.astype(np.uint64) + np.uint64(1)) * _GOLDEN)
    share = np.clip(bits.astype(np.float64) * 2.0**-64, 2.0**-64, 1.0 - 2.0**-53)
    return -np.log1p(-share)


def _bits(number: int) -> _Bits:
    return np.array(number & 0xFFFFFFFFFFFFFFFF, np.uint64)


def _mix(x: _Bits) -> _Bits:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def draw(
    logits: torch.Tensor,
    params: RowParams,
    masks: TokenMasks | None = None,
    excluded: TokenList | None = None,
) -> Sampled:
    """A token of each row as the kernel draws it where filters leave over few tokens: the largest
    of log-probability minus log of the tokens' noise. Elsewhere the kernel has other noise, and
    only the distribution is the same."""
    likely = greedy(logits, masks)
    _, probs = kept(logits, params, masks)
    score = masked_logits(logits, masks)
    tokens = torch.full_like(likely, -1)
    for row in range(len(likely)):
        gone = [] if excluded is None else excluded.ids[row, : int(excluded.counts[row])].tolist()
        if likely[row] < 0:
            continue
        if params.temperature[row] >= _GREEDY_TEMPERATURE:
            score[row] = _scores(probs[row], int(params.seed[row]), int(params.step[row]))
        score[row, gone] = -math.inf
        if bool((score[row] > -math.inf).any()):
            tokens[row] = score[row].argmax()
    return Sampled(tokens, *log_probabilities(logits, tokens, masks))


def _scores(probs: torch.Tensor, seed: int, step: int) -> torch.Tensor:
    scores = torch.full_like(probs, -math.inf)
    tokens = probs.nonzero()[:, 0]
    noise = torch.from_numpy(exponential_noise(seed, step, tokens.numpy()))
    scores[tokens] = probs[tokens].log() - noise.log()
    return scores


def log_probabilities(
    logits: torch.Tensor, tokens: torch.Tensor, masks: TokenMasks | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of each row, under the logits as they are: the log-probability of its token, and that of all
    allowed tokens together."""
    whole = logits.cpu().double().logsumexp(-1)
    own = logits.cpu().double().gather(-1, tokens.cpu().clamp(min=0)[:, None])[:, 0]
    some = masked_logits(logits, masks).logsumexp(-1)
    return (own - whole).float(), (some - whole).clamp(max=0.0).float()


def logprobs_of(logits: torch.Tensor, rows: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """float32 `[n]`: the log-probability of `ids[i]` under row `rows[i]` of `logits`."""
    return logits.cpu().double().log_softmax(-1)[rows.cpu().long(), ids.cpu().long()].float()


def adjust(logits: torch.Tensor, changes: Adjustments) -> torch.Tensor:
    """float64 `[rows, vocab]`: the logits after all penalties and bias."""
    x = logits.cpu().double().clone()
    c = changes
    for row, (first, end) in enumerate(pairwise(c.starts.tolist())):
        if first == end:
            continue
        ids = c.ids[first:end].cpu().long()
        own = x[row, ids]
        factor = min(max(c.repetition[row].item(), 1e-37), 1e37)
        repeated = torch.where(own > 0, own / factor, own * factor).clamp(-1e37, 1e37)
        seen = c.seen[first:end].cpu() != 0
        own = repeated.where(seen & (factor != 1.0), own)
        count = c.counts[first:end].cpu().double()
        taken = c.frequency[row].item() * count + c.presence[row].item()
        own = own - taken.where(count != 0, 0.0)
        bias = c.bias[first:end].cpu().double()
        x[row, ids] = torch.where(bias == -math.inf, bias, own + bias)
    return x
