"""Rotary frequencies of the rope variants of the Llama family."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from sgc_ir.errors import ModelError
from sgc_runtime.model.config import RopeConfig


def rope_frequencies(rope: RopeConfig, head_dim: int) -> tuple[torch.Tensor, float]:
    """`[head_dim / 2]` float32 frequencies in radians a position, and the factor on sin and cos.

    Raises:
        ModelError: a variant that is not known, or values that are no frequencies.
    """
    if rope.kind not in KINDS:
        known = ", ".join(sorted(KINDS))
        raise ModelError(f"rope variant {rope.kind!r} is not supported: known are {known}")
    refusal = f"rope variant {rope.kind!r} has values that give no finite frequencies"
    try:
        frequencies, scale = KINDS[rope.kind](rope, head_dim)
    except (ValueError, ArithmeticError) as error:  # a logarithm of 0, a division by 0
        raise ModelError(f"{refusal}: fetch the model again") from error
    if not bool(torch.isfinite(frequencies).all()) or not math.isfinite(scale):
        raise ModelError(f"{refusal}: fetch the model again")
    return frequencies, scale


def _base(rope: RopeConfig, head_dim: int) -> torch.Tensor:
    exponents = torch.arange(0, head_dim, 2, dtype=torch.int64).to(torch.float32) / head_dim
    return 1.0 / rope.theta**exponents


def _default(rope: RopeConfig, head_dim: int) -> tuple[torch.Tensor, float]:
    return _base(rope, head_dim), 1.0


def _linear(rope: RopeConfig, head_dim: int) -> tuple[torch.Tensor, float]:
    return _base(rope, head_dim) / rope.factor, 1.0


def _divided(rope: RopeConfig, head_dim: int) -> tuple[torch.Tensor, float]:
    if len(rope.divisors) != head_dim // 2:
        raise ModelError(
            f"rope_freqs has {len(rope.divisors)} values where the head size needs "
            f"{head_dim // 2}: the file is damaged"
        )
    return _base(rope, head_dim) / torch.tensor(rope.divisors, dtype=torch.float32), 1.0


def _llama3(rope: RopeConfig, head_dim: int) -> tuple[torch.Tensor, float]:
    """Long waves are stretched by `factor`, short ones kept, those between mixed."""
    base = _base(rope, head_dim)
    turns = rope.original_max_positions * base / (2 * math.pi)  # in the original context
    span = rope.high_freq_factor - rope.low_freq_factor
    kept = ((turns - rope.low_freq_factor) / span).clamp(0.0, 1.0)
    return base / rope.factor * (1 - kept) + base * kept, 1.0


def _yarn(rope: RopeConfig, head_dim: int) -> tuple[torch.Tensor, float]:
    """Frequencies below a ramp are stretched by `factor`, those above kept."""

    def place(turns: float) -> float:  # index of the frequency that turns so often
        wave = rope.original_max_positions / (turns * 2 * math.pi)
        return head_dim * math.log(wave) / (2 * math.log(rope.theta))

    low, high = place(rope.beta_fast), place(rope.beta_slow)
    if rope.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    span = high - low if high != low else 0.001
    stretched = ((torch.arange(head_dim // 2, dtype=torch.float32) - low) / span).clamp(0.0, 1.0)
    base = _base(rope, head_dim)
    return base / rope.factor * stretched + base * (1 - stretched), _yarn_scale(rope)


def _yarn_scale(rope: RopeConfig) -> float:
    def scale(weight: float) -> float:
        return 1.0 if rope.factor <= 1 else 0.1 * weight * math.log(rope.factor) + 1.0

    if rope.attention_factor is not None:
        return rope.attention_factor
    if rope.mscale and rope.mscale_all_dim:
        return scale(rope.mscale) / scale(rope.mscale_all_dim)
    return scale(1.0)


# "dynamic" changes the frequencies only beyond the model's own context length, which an engine
# with cached keys cannot follow and never reaches; up to there it is the default.
KINDS: dict[str, Callable[[RopeConfig, int], tuple[torch.Tensor, float]]] = {
    "default": _default,
    "linear": _linear,
    "dynamic": _default,
    "divided": _divided,
    "llama3": _llama3,
    "yarn": _yarn,
}
