"""Measured choices of decode attention: how far to split, which form of a kernel runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    """Numbers measured on one kind of GPU (an H200; 32/8 heads, head size 128, bfloat16)."""

    # A wide span takes `wide_fixed_us`, then `wide_block_us` for each 64 tokens. Where own spans
    # keep the memory busy meanwhile, 64 wide programs leave them more room than 128.
    wide_fixed_us: float = 6.0
    wide_block_us: float = 1.22
    few_programs: int = 64
    many_programs: int = 128
    least_wide: int = 128  # tokens of a piece
    bytes_per_us: float = 4.1e6  # of own spans
    # Own spans are split where there are too few programs to keep the memory busy.
    enough_programs: int = 1056
    narrow_programs: int = 1200
    least_programs: int = 528
    least_narrow: int = 256
    most_narrow: int = 1024
    # Steps of 16 tokens up to this many own tokens, of 64 above.
    short: int = 160
    least_shared: int = 16  # tokens; a shorter span costs more in partial results than it saves


DEFAULT = Tuning()
