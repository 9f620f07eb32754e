"""Constants and operands as msgpack data.

None, bool, float, str, bytes and integers of 64 bits stand for themselves; everything else is an
array that begins with one of the tags below.
"""

from __future__ import annotations

from typing import Any

from sgc_ir.errors import ArtifactError
from sgc_ir.graph import MISSING, UNSET, Ref
from sgc_ir.limits import MAX_VALUE_DEPTH

LIST, TUPLE, DICT, REF, BIG_INT, MISSING_TAG, UNSET_TAG = range(7)

_ALONE = {MISSING_TAG: MISSING, UNSET_TAG: UNSET}


def pack_value(value: Any, depth: int = 0) -> Any:
    """msgpack data of an operand. Raises ArtifactError for other kinds of object."""
    kind = type(value)
    if value is None or kind in (bool, float, str, bytes):
        return value
    if kind is int:
        return value if -(2**63) <= value < 2**64 else [BIG_INT, _int_bytes(value)]
    if kind is Ref:
        return [REF, value.node]
    if value is MISSING:
        return [MISSING_TAG]
    if value is UNSET:
        return [UNSET_TAG]
    if depth >= MAX_VALUE_DEPTH:
        raise ArtifactError(f"a value nests deeper than {MAX_VALUE_DEPTH} containers")
    if kind is list or kind is tuple:
        return [LIST if kind is list else TUPLE, *(pack_value(v, depth + 1) for v in value)]
    if kind is dict:
        pairs = (pack_value(part, depth + 1) for pair in value.items() for part in pair)
        return [DICT, *pairs]
    raise ArtifactError(
        f"a value of type {kind.__name__} cannot be stored; "
        "use None, bool, int, float, str, bytes, list, tuple or dict"
    )


def _int_bytes(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)


def unpack_value(data: Any, depth: int = 0) -> Any:
    """The operand of msgpack data. Raises ArtifactError."""
    if type(data) is not list:
        return data
    if not data or type(data[0]) is not int:
        raise ArtifactError("damaged artefact: a value without its kind")
    if depth > MAX_VALUE_DEPTH:
        raise ArtifactError(f"damaged artefact: a value nests deeper than {MAX_VALUE_DEPTH}")
    tag, count = data[0], len(data) - 1
    if tag == LIST:
        return [unpack_value(data[i], depth + 1) for i in range(1, count + 1)]
    if tag == TUPLE:
        return tuple(unpack_value(data[i], depth + 1) for i in range(1, count + 1))
    if tag == DICT and count % 2 == 0:
        return _unpack_dict(data, depth + 1)
    if tag == REF and count == 1 and type(data[1]) is int:
        return Ref(data[1])
    if tag == BIG_INT and count == 1 and type(data[1]) is bytes:
        return int.from_bytes(data[1], "big", signed=True)
    if tag in _ALONE and count == 0:
        return _ALONE[tag]
    raise ArtifactError(f"damaged artefact: a value of unknown kind {tag}")


def _unpack_dict(data: list[Any], depth: int) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for i in range(1, len(data), 2):
        try:
            result[unpack_value(data[i], depth)] = unpack_value(data[i + 1], depth)
        except TypeError as error:
            raise ArtifactError("damaged artefact: a key that cannot be one") from error
    if len(result) != len(data) // 2:
        raise ArtifactError("damaged artefact: a key stands there twice")
    return result
