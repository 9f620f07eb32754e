"""The integers, scales and minimums of quantised GGUF tensors, without a loss.

Kinds as in llama.cpp's `ggml-quants`: blocks of 32 columns (`Q4_0` to `Q8_0`), or of 256 whose
eight groups of 32 have 6-bit scales (`Q4_K`, `Q5_K`). Groups of other sizes are not read here.
"""

from __future__ import annotations

from collections.abc import Callable

import gguf
import numpy as np
import torch
from numpy.typing import NDArray

from sgc_kernels.weights.grouped import GroupedWeight

Kind = gguf.GGMLQuantizationType
_Bytes = NDArray[np.uint8]
_Numbers = NDArray[np.float16] | NDArray[np.float32]
_Ints = NDArray[np.uint8] | NDArray[np.int8]
_Parts = tuple[int, _Ints, _Numbers, _Numbers | None]  # bits, integers, scales, minimums

_HALF = np.dtype("<f2")


def grouped_weight(raw: _Bytes, kind: gguf.GGMLQuantizationType) -> GroupedWeight | None:
    """The numbers of a matrix; None for a kind, or numbers, that a `GroupedWeight` cannot hold.

    Args:
        raw: `[out, bytes of a row]`.
    """
    reader = _READERS.get(kind)
    if reader is None:
        return None
    blocks = raw.reshape(-1, gguf.GGML_QUANT_SIZES[kind][1])
    bits, ints, scales, mins = reader(blocks)
    out = raw.shape[0]
    weight = GroupedWeight(
        bits,
        torch.from_numpy(np.ascontiguousarray(ints).reshape(out, -1)),
        torch.from_numpy(np.ascontiguousarray(scales).reshape(out, -1)),
        None if mins is None else torch.from_numpy(np.ascontiguousarray(mins).reshape(out, -1)),
    )
    finite = weight.mins is None or bool(weight.mins.isfinite().all())
    return weight if finite and bool(weight.scales.isfinite().all()) else None


def _halves(blocks: _Bytes, start: int) -> NDArray[np.float16]:
    return blocks[:, start : start + 2].copy().view(_HALF)


def _nibbles(packed: _Bytes) -> _Bytes:
    """Low nibbles of a block's bytes, then the high ones."""
    return np.concatenate([packed & 15, packed >> 4], axis=1)


def _fifth_bits(packed: _Bytes) -> _Bytes:
    return np.unpackbits(packed, axis=1, bitorder="little")


def _q4_0(blocks: _Bytes) -> _Parts:
    scales = _halves(blocks, 0)
    with np.errstate(over="ignore"):
        mins = scales * np.float16(-8)  # a change of the exponent, or an overflow that is seen
    return 4, _nibbles(blocks[:, 2:]), scales, mins


def _q4_1(blocks: _Bytes) -> _Parts:
    return 4, _nibbles(blocks[:, 4:]), _halves(blocks, 0), _halves(blocks, 2)


def _q5_0(blocks: _Bytes) -> _Parts:
    ints = _nibbles(blocks[:, 6:]) | _fifth_bits(blocks[:, 2:6]) << 4
    return 8, ints.view(np.int8) - np.int8(16), _halves(blocks, 0), None


def _q5_1(blocks: _Bytes) -> _Parts:
    ints = _nibbles(blocks[:, 8:]) | _fifth_bits(blocks[:, 4:8]) << 4
    return 8, ints.view(np.int8), _halves(blocks, 0), _halves(blocks, 2)


def _q8_0(blocks: _Bytes) -> _Parts:
    return 8, blocks[:, 2:].view(np.int8), _halves(blocks, 0), None


def _k_scales(blocks: _Bytes) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """`[blocks, 8]` scales and minimums; products of 11 and 6 bits are exact in float32."""
    low, middle, high = np.split(blocks[:, 4:16], 3, axis=1)
    scales = np.concatenate([low & 63, (high & 15) | (low >> 6) << 4], axis=1)
    mins = np.concatenate([middle & 63, (high >> 4) | (middle >> 6) << 4], axis=1)
    d, dmin = (_halves(blocks, start).astype(np.float32) for start in (0, 2))
    return d * scales, -(dmin * mins)


def _k_nibbles(packed: _Bytes) -> _Bytes:
    """`[blocks, 256]`: 32 bytes hold 32 low nibbles, then the 32 high ones that follow."""
    parts = packed.reshape(len(packed), 4, 32)
    return np.stack([parts & 15, parts >> 4], axis=2).reshape(len(packed), 256)


def _q4_k(blocks: _Bytes) -> _Parts:
    scales, mins = _k_scales(blocks)
    return 4, _k_nibbles(blocks[:, 16:]), scales, mins


def _q5_k(blocks: _Bytes) -> _Parts:
    scales, mins = _k_scales(blocks)
    bits = blocks[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    ints = _k_nibbles(blocks[:, 48:]) | bits.reshape(len(blocks), 256) << 4
    return 8, ints.view(np.int8), scales, mins


_READERS: dict[gguf.GGMLQuantizationType, Callable[[_Bytes], _Parts]] = {
    Kind.Q4_0: _q4_0,
    Kind.Q4_1: _q4_1,
    Kind.Q5_0: _q5_0,
    Kind.Q5_1: _q5_1,
    Kind.Q8_0: _q8_0,
    Kind.Q4_K: _q4_k,
    Kind.Q5_K: _q5_k,
}
