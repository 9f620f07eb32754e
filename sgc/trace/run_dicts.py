"""Dicts whose keys a run decides: the dict becomes one symbol, and stores make a new one of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sgc.trace.containers import is_container
from sgc.trace.form import DICT, UNKNOWN, common_form
from sgc.trace.operand import form_of, walk
from sgc.trace.refusal import refuse
from sgc.trace.snapshot import contents, roots
from sgc.trace.symbol import KEY, WHOLE, Maybe, Symbol, Whole, whole

if TYPE_CHECKING:
    from sgc.trace.context import Trace

_READS = ("keys", "values", "items")


def is_lookup(value: Any, key: Any) -> bool:
    """Whether `key` is one that the run knows, or the dict one that only the run knows."""
    return type(value) is dict and (type(key) is Symbol or whole(value) is not None)


def check_lookup(value: dict[Any, Any]) -> None:
    """Refuse to copy lists and objects out of a dict, which would lose their other names."""
    if whole(value) is None and any(is_container(v) or type(v) is Maybe for v in value.values()):
        raise refuse(KEY)


def settle(trace: Trace, value: Any) -> Any:
    """`value`, where all of its keys count: a dict that has some on some paths only becomes one
    whose keys the run decides."""
    if type(value) is not dict or not any(type(v) is Maybe for v in value.values()):
        return value
    if any(is_container(v) for v in value.values()):
        return value  # refused: the lists and objects in it would lose their other names
    ref = trace.operand(value)
    trace.log.touch(value)
    value.clear()
    value[WHOLE] = Whole(Symbol(trace.region, ref.node, DICT))
    return value


def lookup(trace: Trace, value: dict[Any, Any], key: Any) -> Any:
    """`value[key]`."""
    from sgc.trace.items import symbol_item

    check_lookup(value)
    symbol = whole(value)
    found = symbol_item(trace, value if symbol is None else symbol, key)
    if symbol is None and value and type(found) is Symbol and found.form == UNKNOWN:
        form = common_form([form_of(v) for v in value.values()])
        return Symbol(found.region, found.node, form)
    return found


def store(trace: Trace, value: dict[Any, Any], key: Any, new: Any) -> None:
    """`value[key] = new`."""
    _check_stored(trace, value, new)
    made = trace.expr("dict_set", value, key, new)
    trace.log.touch(value)
    value.clear()
    value[WHOLE] = Whole(Symbol(made.region, made.node, DICT))


def _check_stored(trace: Trace, value: dict[Any, Any], new: Any) -> None:
    """Refuse a list or object that has another name, under which it could be changed."""
    check_lookup(value)
    inner = [v for v in walk(new) if is_container(v)]
    if inner:
        known = contents(roots(trace))
        if any(id(v) in known for v in inner):
            raise refuse(
                "a list or object is stored under a run-time key and has another name too; store "
                "a copy, list(...) or dict(...)"
            )


def change_default(
    trace: Trace,
    owner: dict[Any, Any],
    key: Any,
    default: list[Any],
    how: str,
    more: Callable[[], Any],
) -> None:
    """`owner.setdefault(key, default).append(more())`, or extend: the list has no other name, so
    that a new one in its place is the same."""
    from sgc.trace.generator import materialize

    method(trace, owner, "setdefault", (key, default))
    stored = whole(owner)
    given = materialize(trace, more())
    if whole(owner) is not stored:
        raise refuse(f"what is given to `.{how}` changes the dict; give it a name before")
    _check_stored(trace, {}, given)
    fn = "appended" if how == "append" else "extended"
    store(trace, owner, key, trace.expr(fn, lookup(trace, owner, key), given))


def of_pairs(trace: Trace, pairs: list[Any] | Symbol) -> dict[Any, Any]:
    """`dict(pairs)`, where some of the keys, or how many there are, only the run knows."""
    for pair in pairs if type(pairs) is list else ():
        if type(pair) is tuple and len(pair) == 2:
            _check_stored(trace, {}, pair[1])
    made = trace.expr("dict_of_pairs", pairs)
    return {WHOLE: Whole(Symbol(made.region, made.node, DICT))}


def method(trace: Trace, owner: dict[Any, Any], name: str, args: tuple[Any, ...]) -> Any:
    """A method of a dict that `is_lookup`, or whose keys the run decides."""
    if name in ("get", "setdefault") and 1 <= len(args) <= 2:
        check_lookup(owner)
        key, default = args[0], args[1] if len(args) == 2 else None
        inside = trace.runtime.compare("in", key, owner)
        found = trace.runtime.if_expression(
            inside, lambda: trace.runtime.item(owner, key), lambda: default
        )
        if name == "setdefault":
            store(trace, owner, key, found)
        return found
    symbol = whole(owner)
    if symbol is not None and not args:
        if name in _READS:
            return trace.expr("list_of", trace.expr(f".{name}", symbol))
        if name == "copy":
            return {WHOLE: Whole(symbol)}
        if name == "clear":
            return owner.clear()
    raise refuse(KEY if symbol is None else Whole._WHY)
