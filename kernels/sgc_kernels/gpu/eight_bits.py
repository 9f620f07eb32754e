"""Keys and values in 8 bits (e4m3): how they are written, and what they are multiplied as.

All 256 numbers of e4m3 are numbers of float16, and the conversion is one instruction for two of
them (to bfloat16 it takes four). So products with them run in float16 whatever the model's 16-bit
format; weights of the softmax are more exact in it, and queries are held within its range.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def beside(query: tl.tensor, cache: tl.tensor) -> tl.tensor:
    """A query in the format in which it is multiplied with what `cache` points to."""
    if cache.dtype.element_ty == tl.float8e4nv:
        if query.dtype == tl.bfloat16:
            query = query.to(tl.float32)
            query = tl.clamp(query, -65504.0, 65504.0, propagate_nan=tl.PropagateNan.ALL)
            query = query.to(tl.float16)
    return query


@triton.jit
def stored(x: tl.tensor, cache: tl.tensor) -> tl.tensor:
    """Numbers as `cache` keeps them; in 8 bits those beyond 448 become 448, and NaN stays NaN."""
    if cache.dtype.element_ty == tl.float8e4nv:
        x = tl.clamp(x.to(tl.float32), -448.0, 448.0, propagate_nan=tl.PropagateNan.ALL)
    return x.to(cache.dtype.element_ty)
