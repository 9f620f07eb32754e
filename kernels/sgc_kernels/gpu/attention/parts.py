"""What the kernels of decode attention have in common: reading items and places."""

from __future__ import annotations

import triton
import triton.language as tl

LOG2_E = 1.4426950408889634


@triton.jit
def load_item(items: tl.tensor, number: tl.tensor) -> tuple[tl.tensor, ...]:
    """Row, start, end, first place, number of places, part."""
    at = items + number * 8
    return (
        tl.load(at),
        tl.load(at + 1),
        tl.load(at + 2),
        tl.load(at + 3),
        tl.load(at + 4),
        tl.load(at + 5),
    )


@triton.jit
def first_seen(
    start: tl.tensor, lens: tl.tensor, rows: tl.tensor, live: tl.tensor, WINDOW: tl.constexpr
) -> tl.tensor:
    """The first token of a span that any of the rows sees."""
    lengths = tl.load(lens + rows, mask=live, other=2147483647)
    return tl.maximum(start, tl.min(lengths, axis=0) - WINDOW)
