"""What the sampling kernels share: masked tiles of logits, order-preserving keys, noise."""

from __future__ import annotations

import triton
import triton.language as tl

from sgc_kernels.gpu.sampling.params import CHUNK_TOKENS, PART_TOKENS

CHUNK = tl.constexpr(CHUNK_TOKENS)
PART = tl.constexpr(PART_TOKENS)
WORD = tl.constexpr(32)  # tokens a mask word speaks of

LOG2_E = tl.constexpr(1.4426950408889634)
_GOLDEN = tl.constexpr(0x9E3779B97F4A7C15)
_MIX_1 = tl.constexpr(0xBF58476D1CE4E5B9)
_MIX_2 = tl.constexpr(0x94D049BB133111EB)
# The interpreter knows no assembly, and tl.log2 is a call of some 20 instructions.
_INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)


@triton.jit
def mask_of(
    masks: tl.tensor,
    stride: tl.tensor,
    rows: tl.tensor,
    row: tl.tensor,
    WORDS: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Where the mask of a row begins, and whether it has one."""
    if WORDS > 0:
        index = tl.load(rows + row)
        return masks + tl.maximum(index, 0).to(tl.int64) * stride, index >= 0
    else:
        return masks, row < 0


@triton.jit
def load_words(
    mask: tl.tensor, bound: tl.tensor, word: tl.tensor, WORDS: tl.constexpr
) -> tl.tensor:
    """Mask words at `word` ([n] int32); all bits are 1 if the row is not `bound`, or where no row
    is (`WORDS` = 0)."""
    if WORDS > 0:
        found = tl.load(mask + word, mask=(word < WORDS) & bound, other=0)
        return tl.where(bound, found, -1)
    else:
        return tl.zeros_like(word) - 1


@triton.jit
def load_logits(
    start: tl.tensor, word: tl.tensor, wanted: tl.tensor, VOCAB: tl.constexpr
) -> tl.tensor:
    """`[n, 32]` float32: the logits of the words `word` that are `wanted`, minus infinity for the
    others."""
    column = word[:, None] * WORD + tl.arange(0, WORD)[None, :]
    # One predicate for 32 tokens, so that loads stay 16 bytes wide; bits are applied afterwards.
    x = tl.load(start + column, mask=wanted[:, None] & (column < VOCAB), other=float("-inf"))
    return x.to(tl.float32)


@triton.jit
def part_words(part: tl.tensor) -> tl.tensor:
    """The words of a part."""
    return part * (PART // WORD) + tl.arange(0, PART // WORD)


@triton.jit
def only_allowed(x: tl.tensor, words: tl.tensor) -> tl.tensor:
    """`x` (`[n, 32]`) with minus infinity where the bit of `words` (`[n]`) is 0."""
    bit = tl.full([WORD], 1, tl.int32) << tl.arange(0, WORD)
    return tl.where((words[:, None] & bit[None, :]) != 0, x, float("-inf"))


@triton.jit
def _larger(a: tl.tensor, b: tl.tensor) -> tl.tensor:
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def largest(x: tl.tensor, AXIS: tl.constexpr) -> tl.tensor:
    """The largest numbers along an axis; plus infinity where some are no numbers, so that these
    show."""
    if _INTERPRETED:
        return tl.max(tl.where(x == x, x, float("inf")), AXIS)
    else:
        most = tl.reduce(x, AXIS, _larger)
        return tl.where(most == most, most, float("inf"))


@triton.jit
def weights_below(x: tl.tensor, top: tl.tensor, scale: tl.tensor) -> tl.tensor:
    """exp2((x - top) * scale), 0 where x is minus infinity."""
    return tl.exp2((x - tl.where(top > float("-inf"), top, 0.0)) * scale)


@triton.jit
def order_key(x: tl.tensor) -> tl.tensor:
    """int32 keys in the order of the float32 numbers, both zeros alike."""
    bits = (x + 0.0).to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def of_key(key: tl.tensor) -> tl.tensor:
    """The number of an `order_key`."""
    return (key ^ ((key >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit
def fast_log2(x: tl.tensor) -> tl.tensor:
    if _INTERPRETED:
        return tl.log2(x)
    else:
        return tl.inline_asm_elementwise(
            "lg2.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )


@triton.jit
def keep(ids: tl.tensor, places: tl.tensor, row: tl.tensor, token: tl.tensor) -> None:
    """Put a row's token at its place in `ids`, if it has one (see `IdTable`)."""
    place = tl.load(places + row)
    if place >= 0:
        tl.store(ids + place, tl.maximum(token, 0).to(tl.int64))


@triton.jit
def _mix(x: tl.tensor) -> tl.tensor:
    x = (x ^ (x >> 30)) * _MIX_1
    x = (x ^ (x >> 27)) * _MIX_2
    return x ^ (x >> 31)


@triton.jit
def noise_key(seed: tl.tensor, step: tl.tensor) -> tl.tensor:
    """uint64 of a row's seed and step (int64), from which all of its noise of this step comes."""
    mixed = _mix(seed.to(tl.uint64, bitcast=True) + _GOLDEN)
    return _mix(mixed ^ ((step.to(tl.uint64, bitcast=True) + 1) * _GOLDEN))


@triton.jit
def log2_noise(key: tl.tensor, place: tl.tensor) -> tl.tensor:
    """log2 of exponential noise, a function of key and place (int32, not negative) alone.

    The largest of log2(weight) minus this is a draw by weight. Winners have small noise, so the
    random number keeps all of its 64 bits near 0.
    """
    bits = _mix(key + (place.to(tl.uint64) + 1) * _GOLDEN)
    high = (bits >> 32).to(tl.uint32).to(tl.float32)
    low = bits.to(tl.uint32).to(tl.float32)
    v = tl.maximum(high * 2.0**-32 + low * 2.0**-64, 2.0**-65)
    series = v * (1.0 + v * (0.5 + v * (0.33333334 + v * 0.25)))
    rest = tl.maximum(1.0 - v, 2.0**-25)
    return fast_log2(tl.where(v < 0.015625, series, fast_log2(rest) * -0.6931471805599453))
