"""A pass over msgpack bytes before they are unpacked: lengths, kinds and depth, no allocation.

The unpacker reserves what an array header declares. Here every declared item is held against the
bytes that are left, so all arrays together hold at most one item a byte.
"""

from __future__ import annotations

from sgc_ir.errors import ArtifactError
from sgc_ir.limits import MAX_BODY_DEPTH, MAX_VALUE_DEPTH

# A body costs four arrays (graph, nodes, node, attributes), a value one a container.
MAX_DEPTH = 4 * (MAX_BODY_DEPTH + 2) + MAX_VALUE_DEPTH + 4

_FIXED = {0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCB: 8}  # nil, false, true, float64
_FIXED.update({0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8})
_SIZED = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}  # bin and str: size of length
_ARRAYS = {0xDC: 2, 0xDD: 4}


def scan(data: memoryview) -> None:
    """Refuse bytes whose unpacking would not end exactly at their end; raises ArtifactError."""
    size, at = len(data), 0
    open_items = [1]  # items still to come, per open array
    pending = 1  # their sum
    while pending:
        if at >= size or pending > size - at:
            raise ArtifactError("damaged artefact: it declares more items than it has bytes")
        at, items = _step(data, at)
        pending += items - 1
        open_items[-1] -= 1
        if items:
            open_items.append(items)
        while open_items and not open_items[-1]:
            open_items.pop()
        if len(open_items) > MAX_DEPTH:
            raise ArtifactError("damaged artefact: nested too deeply")
    if at != size:
        raise ArtifactError("damaged artefact: bytes follow the end of its data")


def _step(data: memoryview, at: int) -> tuple[int, int]:
    """Position behind the header and body of the item at `at`, and how many items it holds."""
    kind = data[at]
    at += 1
    if kind <= 0x7F or kind >= 0xE0:
        return at, 0
    if 0x90 <= kind <= 0x9F:
        return at, kind & 0x0F
    if 0xA0 <= kind <= 0xBF:
        return _skip(data, at, kind & 0x1F), 0
    if kind in _FIXED:
        return _skip(data, at, _FIXED[kind]), 0
    if kind in _SIZED:
        start = _skip(data, at, _SIZED[kind])
        return _skip(data, start, int.from_bytes(data[at:start])), 0
    if kind in _ARRAYS:
        start = _skip(data, at, _ARRAYS[kind])
        return start, int.from_bytes(data[at:start])
    raise ArtifactError(f"damaged artefact: byte 0x{kind:02x} has no meaning here")


def _skip(data: memoryview, at: int, count: int) -> int:
    if count > len(data) - at:
        raise ArtifactError("damaged artefact: it declares more bytes than it has")
    return at + count
