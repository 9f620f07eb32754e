"""Methods of the expression table: those of str, list, tuple and dict that change nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sgc_ir.expr_format import format_template
from sgc_ir.expr_limits import MAX_ITEMS, guard_items, guard_text

_RECEIVERS = (str, bytes, list, tuple, dict)
_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


@dataclass(frozen=True, slots=True)
class Method:
    """`call(receiver, ...)` with `low` to `high` further operands and these keywords."""

    call: Callable[..., Any]
    low: int
    high: int | None
    keywords: frozenset[str] | None = frozenset()


def _bound(receiver: Any, name: str) -> Callable[..., Any]:
    method = getattr(receiver, name, None) if isinstance(receiver, _RECEIVERS) else None
    if method is None:
        raise AttributeError(f"{type(receiver).__name__!r} object has no attribute {name!r}")
    bound: Callable[..., Any] = method
    return bound


def _plain(name: str) -> Callable[..., Any]:
    def call(receiver: Any, *args: Any, **kwargs: Any) -> Any:
        return _bound(receiver, name)(*args, **kwargs)

    return call


def _padded(name: str) -> Callable[..., Any]:
    def call(receiver: Any, *args: Any) -> Any:
        method = _bound(receiver, name)
        if args and isinstance(args[0], int):
            guard_text(args[0])
        return method(*args)

    return call


def _expandtabs(receiver: Any, *args: Any, **kwargs: Any) -> Any:
    method = _bound(receiver, "expandtabs")
    size = args[0] if args else kwargs.get("tabsize", 8)
    if isinstance(size, int):
        tab = "\t" if isinstance(receiver, str) else b"\t"
        guard_text(len(receiver) + receiver.count(tab) * max(size, 0))
    return method(*args, **kwargs)


def _replace(receiver: Any, *args: Any, **kwargs: Any) -> Any:
    method = _bound(receiver, "replace")
    old, new = args[0], args[1]
    if type(old) is type(new) is type(receiver):
        times = receiver.count(old)
        limit = args[2] if len(args) > 2 else -1
        if isinstance(limit, int) and limit >= 0:
            times = min(times, limit)
        guard_text(len(receiver) + times * max(0, len(new) - len(old)))
    return method(*args, **kwargs)


def _join(receiver: Any, parts: Any) -> Any:
    method = _bound(receiver, "join")
    if isinstance(parts, list | tuple | dict):
        sized = sum(len(p) for p in parts if isinstance(p, str | bytes))
        guard_text(sized + len(receiver) * max(0, len(parts) - 1))
    return method(parts)


def _splitting(name: str) -> Callable[..., Any]:
    """split and rsplit, stopped one behind the largest number of items allowed."""

    def call(receiver: Any, sep: Any = None, maxsplit: Any = -1) -> Any:
        method = _bound(receiver, name)
        limited = isinstance(maxsplit, int) and (maxsplit < 0 or maxsplit > MAX_ITEMS)
        parts = method(sep, MAX_ITEMS if limited else maxsplit)
        guard_items(len(parts))
        return parts

    return call


def _splitlines(receiver: Any, *args: Any, **kwargs: Any) -> Any:
    method = _bound(receiver, "splitlines")
    if len(receiver) > MAX_ITEMS:
        text = receiver if isinstance(receiver, str) else receiver.decode("latin-1")
        guard_items(sum(text.count(end) for end in _LINE_ENDS) - text.count("\r\n"))
    return method(*args, **kwargs)


def _format(receiver: Any, /, *args: Any, **kwargs: Any) -> Any:
    _bound(receiver, "format")
    return format_template(receiver, *args, **kwargs)


def _rows(names: str, low: int, high: int) -> dict[str, Method]:
    return {f".{name}": Method(_plain(name), low, high) for name in names.split()}


METHODS: dict[str, Method] = {
    **_rows("lower upper title capitalize swapcase casefold", 0, 0),
    **_rows("isalnum isalpha isascii isdecimal isdigit isidentifier islower", 0, 0),
    **_rows("isnumeric isprintable isspace istitle isupper", 0, 0),
    **_rows("strip lstrip rstrip", 0, 1),
    **_rows("removeprefix removesuffix partition rpartition", 1, 1),
    **_rows("startswith endswith find rfind index rindex count", 1, 3),
    **_rows("keys values items copy", 0, 0),
    **_rows("get", 1, 2),
    **{f".{name}": Method(_padded(name), 1, 2) for name in ("ljust", "rjust", "center")},
    ".zfill": Method(_padded("zfill"), 1, 1),
    ".expandtabs": Method(_expandtabs, 0, 1, frozenset({"tabsize"})),
    ".replace": Method(_replace, 2, 3, frozenset({"count"})),
    ".join": Method(_join, 1, 1),
    ".split": Method(_splitting("split"), 0, 2, frozenset({"sep", "maxsplit"})),
    ".rsplit": Method(_splitting("rsplit"), 0, 2, frozenset({"sep", "maxsplit"})),
    ".splitlines": Method(_splitlines, 0, 1, frozenset({"keepends"})),
    ".format": Method(_format, 0, None, None),
}
