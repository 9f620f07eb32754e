"""Tries the patterns of `match` (see `sgc.trace.rewrite_match`) on a value that is known now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sgc.trace.operand import holds_spread
from sgc.trace.refusal import refuse
from sgc.trace.symbol import TRUTH, is_mark

if TYPE_CHECKING:
    from sgc.trace.context import Trace

Captures = dict[str, Any]
_SELF_MATCHING = (
    bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple,
)  # fmt: skip


def matches(trace: Trace, pattern: tuple[Any, ...], subject: Any, captures: Captures) -> bool:
    """Whether `subject` fits; names that it binds are added to `captures`."""
    return _KINDS[pattern[0]](trace, pattern, subject, captures)


def _known(subject: Any) -> Any:
    if is_mark(subject) or holds_spread(subject):
        raise refuse(TRUTH)
    return subject


def _value(trace: Trace, pattern: Any, subject: Any, captures: Captures) -> bool:
    return trace.runtime.truth(trace.runtime.compare("==", subject, pattern[1]()))


def _constant(trace: Trace, pattern: Any, subject: Any, captures: Captures) -> bool:
    return _known(subject) is pattern[1]


def _or(trace: Trace, pattern: Any, subject: Any, captures: Captures) -> bool:
    return any(matches(trace, p, subject, captures) for p in pattern[1])


def _as(trace: Trace, pattern: Any, subject: Any, captures: Captures) -> bool:
    _, inner, name = pattern
    if inner is not None and not matches(trace, inner, subject, captures):
        return False
    if name is not None:
        captures[name] = subject
    return True


def _sequence(trace: Trace, pattern: Any, subject: Any, captures: Captures) -> bool:
    parts = pattern[1]
    if not isinstance(_known(subject), Sequence) or isinstance(subject, str | bytes | bytearray):
        return False
    star = next((i for i, p in enumerate(parts) if p[0] == "star"), None)
    if star is None:
        if len(subject) != len(parts):
            return False
        pairs = list(zip(parts, subject, strict=True))
    else:
        behind = len(parts) - star - 1
        if len(subject) < len(parts) - 1:
            return False
        end = len(subject) - behind
        if parts[star][1] is not None:
            captures[parts[star][1]] = list(subject[star:end])
        pairs = list(zip(parts[:star], subject[:star], strict=True))
        pairs += list(zip(parts[star + 1 :], subject[end:], strict=True))
    return all(matches(trace, p, item, captures) for p, item in pairs)


def _mapping(trace: Trace, pattern: Any, subject: Any, captures: Captures) -> bool:
    _, entries, rest = pattern
    if not isinstance(_known(subject), Mapping):
        return False
    keys = [key() for key, _ in entries]
    if any(key not in subject for key in keys):
        return False
    if not all(
        matches(trace, inner, subject[key], captures)
        for key, (_, inner) in zip(keys, entries, strict=True)
    ):
        return False
    if rest is not None:
        captures[rest] = {k: v for k, v in subject.items() if k not in keys}
    return True


def _class(trace: Trace, pattern: Any, subject: Any, captures: Captures) -> bool:
    _, cls_thunk, positional, named = pattern
    cls = cls_thunk()
    if not isinstance(_known(subject), cls):
        return False
    if positional and cls in _SELF_MATCHING:
        if len(positional) > 1:
            raise TypeError(f"{cls.__name__}() accepts 1 positional sub-pattern")
        if not matches(trace, positional[0], subject, captures):
            return False
        positional = ()
    names = getattr(cls, "__match_args__", ()) if positional else ()
    if len(positional) > len(names):
        raise TypeError(f"{cls.__name__}() accepts {len(names)} positional sub-patterns")
    pairs = [*zip(names, positional), *named]  # noqa: B905
    for name, inner in pairs:
        if not hasattr(subject, name):
            return False
        if not matches(trace, inner, trace.runtime.attribute(subject, name), captures):
            return False
    return True


_KINDS: dict[str, Callable[[Trace, Any, Any, Captures], bool]] = {
    "value": _value,
    "constant": _constant,
    "or": _or,
    "as": _as,
    "sequence": _sequence,
    "mapping": _mapping,
    "class": _class,
}
