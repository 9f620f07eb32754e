"""Results of nodes as bytes (msgpack) and back, exactly: tuples stay tuples, integers have any
size, half surrogate pairs pass."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgpack

from sgc_ir.params import CallResult, Usage

_TUPLE, _INTEGER = 1, 2  # codes of msgpack's extension types
_CONTENTS: Mapping[type, Callable[[Any], Any]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    list: list,
    dict: dict,
}


def pack(value: Any, loose: bool = False) -> bytes:
    """Bytes of plain data. Raises TypeError naming what is none.

    Args:
        loose: take enums and other kinds of text, numbers (numpy's too), lists and dicts for what
            they hold.
    """
    data: bytes = msgpack.packb(
        value,
        default=_loose if loose else _extension,
        strict_types=True,
        unicode_errors="surrogatepass",
    )
    return data


def unpack(data: bytes) -> Any:
    """What was packed. Raises ValueError for other bytes."""
    return msgpack.unpackb(
        data, ext_hook=_value, unicode_errors="surrogatepass", strict_map_key=False
    )


def pack_results(results: Sequence[CallResult]) -> bytes:
    """Bytes of the results of a model call, without the time that it took."""
    return pack([_fields(result) for result in results])


def unpack_results(data: bytes) -> list[CallResult]:
    """Results as they were packed."""
    return [_result(*fields) for fields in unpack(data)]


def _fields(result: CallResult) -> list[Any]:
    usage = result.usage
    return [
        result.text,
        list(result.token_ids),
        result.finish_reason,
        result.matched,
        result.complete,
        [
            usage.prompt_tokens,
            usage.completion_tokens,
            usage.forced_tokens,
            usage.cached_tokens,
            usage.scored_tokens,
        ],
        dict(result.meta),
        result.pending,
        result.residual,
        result.rolled_back,
    ]


def _result(
    text: str,
    token_ids: list[int],
    finish_reason: str,
    matched: str | int | None,
    complete: bool,
    usage: list[int],
    *rest: Any,
) -> CallResult:
    return CallResult(text, token_ids, finish_reason, matched, complete, Usage(*usage), *rest)


def _loose(value: Any) -> Any:
    if type(value) is tuple:
        return msgpack.ExtType(_TUPLE, pack(list(value), loose=True))
    if isinstance(value, tuple):
        return _loose(tuple(value))
    for kind, content in _CONTENTS.items():
        if isinstance(value, kind) and type(value) is not kind:
            return content(value)
    numpy = sys.modules.get("numpy")  # without it there is no number of its kinds
    if numpy is not None and isinstance(value, numpy.number | numpy.bool_):
        return value.item()
    return _extension(value)


def _extension(value: Any) -> msgpack.ExtType:
    if type(value) is tuple:
        return msgpack.ExtType(_TUPLE, pack(list(value)))
    if type(value) is int:  # one that msgpack has no room for
        size = value.bit_length() // 8 + 1
        return msgpack.ExtType(_INTEGER, value.to_bytes(size, "big", signed=True))
    raise TypeError(f"a {type(value).__name__} is no plain data")


def _value(code: int, data: bytes) -> Any:
    if code == _TUPLE:
        return tuple(unpack(data))
    if code == _INTEGER:
        return int.from_bytes(data, "big", signed=True)
    raise ValueError(f"unknown extension {code}")
