"""Sorting, and the least and greatest, of run-time values; a key is called once an item."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sgc.trace.chosen import in_order
from sgc.trace.operand import form_of, holds_spread, holds_symbol
from sgc.trace.refusal import refuse
from sgc.trace.run_loops import run_loop
from sgc.trace.state import TracedState
from sgc.trace.symbol import Spread, Symbol, is_mark, is_stream
from sgc.trace.walk import Leaf, as_walk

if TYPE_CHECKING:
    from sgc.trace.context import Trace


def sorted_values(trace: Trace, values: Any, key: Any, reverse: Any) -> Any:
    """`sorted(values, key=key, reverse=reverse)`."""
    items = trace.runtime.listed(values)
    keys = items if key is None else keys_of(trace, items, key)
    if not holds_symbol(keys) and not holds_spread(items) and not is_mark(reverse):
        pairs = sorted(range(len(items)), key=lambda i: keys[i], reverse=reverse)
        return [items[i] for i in pairs]
    options = {} if reverse is False else {"reverse": reverse}
    if key is not None and _are_branches(items):
        order = trace.expr("argsort", keys, **options)
        return in_order(trace, items, order, len(items))
    _check_data(items)
    if key is None:
        made = trace.expr("sorted", items, **options)
        return [Spread(made)]
    order = trace.expr("argsort", keys, **options)
    return _in_order(trace, items, order)


def keys_of(trace: Trace, items: Any, key: Any) -> Any:
    """The key of each item, as a list."""
    walk = as_walk(trace, items)
    if walk is None:
        return [trace.runtime.call(key, item) for item in items]
    values = run_loop(trace, walk, lambda item: trace.runtime.call(key, item), gives_value=True)
    assert values is not None, "a loop that gives values has a value"
    return [Spread(values)]


def _in_order(trace: Trace, items: Any, order: Symbol) -> list[Any]:
    if not holds_spread(items):
        return [trace.runtime.item(items, order[i]) for i in range(len(items))]
    listed = trace.runtime.as_list(items)

    def pick(index: Any) -> Any:
        return trace.runtime.item(listed, index)

    found = run_loop(trace, Leaf(trace, order), pick, gives_value=True)
    assert found is not None, "a loop that gives values has a value"
    return [Spread(found)]


def _check_data(items: Any) -> None:
    if not form_of(items).is_data or any(_is_stream(item) for item in items):
        raise refuse(
            "branches or handles are put in an order that a run decides, which is not compiled "
            "yet; sort their values instead"
        )


def _are_branches(items: Any) -> bool:
    return bool(items) and all(isinstance(item, TracedState) for item in items)


def _is_stream(value: Any) -> bool:
    return is_stream(value)


def sort_in_place(trace: Trace, items: list[Any], key: Any = None, reverse: Any = False) -> None:
    """`items.sort(...)`."""
    items[:] = sorted_values(trace, list(items), key, reverse)


def extreme(trace: Trace, fn: str, args: tuple[Any, ...], key: Any, options: Any) -> Any:
    """`min` or `max`."""
    items = trace.runtime.listed(args[0]) if len(args) == 1 else list(args)
    native = min if fn == "min" else max
    keys = items if key is None else keys_of(trace, items, key)
    if not holds_symbol(keys) and not holds_spread(items) and not holds_symbol(options):
        if key is None:
            return native(items, **options)
        best = native(range(len(items)), key=lambda i: keys[i], **_numbered(options))
        return options["default"] if best is None else items[best]
    if key is not None and not options and _are_branches(items):
        order = trace.expr("argsort", keys, **({"reverse": True} if fn == "max" else {}))
        return in_order(trace, items, order, 1)[0]
    _check_data(items)
    if key is None:
        return (
            trace.expr(fn, *args, **options) if len(args) > 1 else trace.expr(fn, items, **options)
        )
    if options:
        raise refuse(f"{fn} with key and default on run-time values; leave the default out")
    order = trace.expr("argsort", keys, **({"reverse": True} if fn == "max" else {}))
    return trace.runtime.item(items, order[0])


def _numbered(options: dict[str, Any]) -> dict[str, Any]:
    return {"default": None} if options else {}
