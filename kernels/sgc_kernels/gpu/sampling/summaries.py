"""The first pass of a draw, which reads the logits once: what is left of 128 tokens are 8 bytes."""

from __future__ import annotations

import triton
import triton.language as tl

from sgc_kernels.gpu.sampling.sums import load_part
from sgc_kernels.gpu.sampling.tile import CHUNK, LOG2_E, PART, largest, mask_of, weights_below

GREEDY_TEMPERATURE = tl.constexpr(1e-6)  # below it a row takes its largest logit
_HOTTEST = tl.constexpr(1e38)  # all tokens are alike long before


@triton.jit
def exponent_scale(temperature: tl.tensor) -> tl.tensor:
    """What differences of logits are multiplied by in exp2; that of temperature 1 if greedy."""
    heat = tl.where(temperature < GREEDY_TEMPERATURE, 1.0, tl.minimum(temperature, _HOTTEST))
    return LOG2_E / heat


@triton.jit(do_not_specialize=["mask_stride"])
def summarise(
    logits: tl.tensor,
    stride: tl.tensor,
    temperature: tl.tensor,
    masks: tl.tensor,
    mask_stride: tl.tensor,
    mask_rows: tl.tensor,
    chunk_max: tl.tensor,
    chunk_sum: tl.tensor,
    raw: tl.tensor,
    allowed: tl.tensor,
    VOCAB: tl.constexpr,
    WORDS: tl.constexpr,
    PARTS: tl.constexpr,
    STATS: tl.constexpr,
) -> None:
    """Largest allowed logit of each chunk, and the sum of its weights at the row's temperature;
    with STATS, what the log-probabilities need beyond that."""
    part, row = tl.program_id(0), tl.program_id(1)
    start = logits + row.to(tl.int64) * stride
    mask, bound = mask_of(masks, mask_stride, mask_rows, row, WORDS)
    x = load_part(start, mask, bound, raw, allowed, row, part, VOCAB, WORDS, PARTS, STATS)
    scale = exponent_scale(tl.load(temperature + row))
    x = tl.reshape(x, [PART // CHUNK, CHUNK])
    most = largest(x, 1)
    chunk = (row * PARTS + part) * (PART // CHUNK) + tl.arange(0, PART // CHUNK)
    tl.store(chunk_max + chunk, most)
    tl.store(chunk_sum + chunk, tl.sum(weights_below(x, most[:, None], scale), 1))
