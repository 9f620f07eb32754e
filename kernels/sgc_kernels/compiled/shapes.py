"""Sizes of the blocks that the compiled kernels work on, by CPU."""

from __future__ import annotations

from sgc_kernels.compiled.lanes import Format, cpu_features

KEYS = 64  # keys of a packed block
TILE_ROWS = 6 if "avx512f" in cpu_features() else 4
# Accumulators of a tile, in vectors of 16 lanes: 24 of 32 registers, or 12 of 16 half as wide.
TILE_COLUMNS = 4 if "avx512f" in cpu_features() else 1


def has_pair_products(form: Format) -> bool:
    """Whether scores can be computed on bfloat16 pairs."""
    return form is Format.BFLOAT16 and "avx512bf16" in cpu_features()
