"""Tries the patterns of `match` (see `sgc.trace.rewrite_match`) on a value that is known now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sgc.trace.operand import holds_spread
from sgc.trace.refusal import refuse
from sgc.trace.symbol import is_mark

if TYPE_CHECKING:
    from sgc.trace.context import Trace

Captures = dict[str, Any]
_SELF_MATCHING = (
    bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple,
)  # fmt: skip


def matches(trace: Trace, pattern: tuple[Any, ...], subject: Any, captures: Captures) -> Any:
    """Whether `subject` fits: a truth, or a run-time value; names that it binds are added to
    `captures`."""
    return _KINDS[pattern[0]](trace, pattern, subject, captures)


def _known(subject: Any) -> Any:
    if is_mark(subject) or holds_spread(subject):
        raise refuse(
            "a pattern that looks into a run-time value (a sequence, mapping or class) is not "
            "compiled; compare its parts in an `if`, or match a text, a number or one of its parts"
        )
    return subject


def _value(trace: Trace, pattern: Any, subject: Any, captures: Captures) -> Any:
    return trace.runtime.compare("==", subject, pattern[1]())


def _constant(trace: Trace, pattern: Any, subject: Any, captures: Captures) -> Any:
    return trace.runtime.compare("is", subject, pattern[1])


def _or(trace: Trace, pattern: Any, subject: Any, captures: Captures) -> Any:
    return trace.runtime.either(*_each(trace, [(p, subject) for p in pattern[1]], captures))


def _as(trace: Trace, pattern: Any, subject: Any, captures: Captures) -> Any:
    _, inner, name = pattern
    if name is not None:
        captures[name] = subject
    return True if inner is None else matches(trace, inner, subject, captures)


def _each(
    trace: Trace, pairs: Sequence[tuple[Any, Any]], captures: Captures
) -> list[Callable[[], Any]]:
    """One question for each pattern and its subject."""

    def ask(pattern: Any, subject: Any) -> Callable[[], Any]:
        return lambda: matches(trace, pattern, subject, captures)

    return [ask(pattern, subject) for pattern, subject in pairs]


def _all(trace: Trace, pairs: Sequence[tuple[Any, Any]], captures: Captures) -> Any:
    return trace.runtime.both(*_each(trace, pairs, captures)) if pairs else True


def _sequence(trace: Trace, pattern: Any, subject: Any, captures: Captures) -> Any:
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
    return _all(trace, pairs, captures)


def _mapping(trace: Trace, pattern: Any, subject: Any, captures: Captures) -> Any:
    _, entries, rest = pattern
    if not isinstance(_known(subject), Mapping):
        return False
    keys = [key() for key, _ in entries]
    if any(key not in subject for key in keys):
        return False
    if rest is not None:
        captures[rest] = {k: v for k, v in subject.items() if k not in keys}
    inner = [part for _, part in entries]
    return _all(trace, [(p, subject[k]) for p, k in zip(inner, keys, strict=True)], captures)


def _class(trace: Trace, pattern: Any, subject: Any, captures: Captures) -> Any:
    _, cls_thunk, positional, named = pattern
    cls = cls_thunk()
    if not isinstance(_known(subject), cls):
        return False
    tests: list[tuple[Any, Any]] = []
    if positional and cls in _SELF_MATCHING:
        if len(positional) > 1:
            raise TypeError(f"{cls.__name__}() accepts 1 positional sub-pattern")
        tests.append((positional[0], subject))
        positional = ()
    names = getattr(cls, "__match_args__", ()) if positional else ()
    if len(positional) > len(names):
        raise TypeError(f"{cls.__name__}() accepts {len(names)} positional sub-patterns")
    pairs = [*zip(names, positional), *named]  # noqa: B905
    for name, inner in pairs:
        if not hasattr(subject, name):
            return False
        tests.append((inner, trace.runtime.attribute(subject, name)))
    return _all(trace, tests, captures)


_KINDS: dict[str, Callable[[Trace, Any, Any, Captures], Any]] = {
    "value": _value,
    "constant": _constant,
    "or": _or,
    "as": _as,
    "sequence": _sequence,
    "mapping": _mapping,
    "class": _class,
}
