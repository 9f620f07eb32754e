"""Values as operands of nodes: constants, references, and containers of both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sgc.trace.form import Form, form_of_constant
from sgc.trace.refusal import refuse
from sgc.trace.symbol import MARKS, Maybe, Poison, Spread, Symbol, is_stream, whole
from sgc_ir.graph import Ref
from sgc_ir.ops import Op

if TYPE_CHECKING:
    from sgc.trace.context import Trace
    from sgc.trace.region import Region

_SCALARS = (type(None), bool, int, float, str, bytes)


def operand(trace: Trace, value: Any, region: Region) -> Any:
    """`value` as an operand in `region`. Refuses what is no plain data."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is Symbol:
        return region.lift(value)
    if kind is list and any(type(v) is Spread for v in value):
        return _joined(trace, value, region)
    if kind is list or kind is tuple:
        return kind(operand(trace, v, region) for v in value)
    if kind is dict:
        if (symbol := whole(value)) is not None:
            return region.lift(symbol)
        if any(type(v) is Maybe for v in value.values()):
            return _dict_of_set(trace, value, region)
        return {_key(k): operand(trace, v, region) for k, v in value.items()}
    if kind is Poison or kind is Maybe:
        raise refuse(value.why if kind is Poison else Maybe._WHY)
    return _other(trace, value, region)


def _dict_of_set(trace: Trace, value: dict[Any, Any], region: Region) -> Any:
    """A dict some of whose keys are set on some paths only."""
    args: list[Any] = []
    for key, item in value.items():
        inner = item.value if type(item) is Maybe else item
        args += [_key(key), operand(trace, inner, region)]
    attrs = {"fn": "dict_of_set", "args": tuple(args)}
    return Ref(trace.node(Op.EXPR, attrs, region=region, may_fail=False))


def _key(key: Any) -> Any:
    if type(key) in _SCALARS or (type(key) is tuple and all(type(k) in _SCALARS for k in key)):
        return key
    raise refuse(f"a dict with the key {key!r} is not plain data; use texts or numbers as keys")


def _other(trace: Trace, value: Any, region: Region) -> Any:
    from sgc.trace.forks import Branch, Forks
    from sgc.trace.handle import TracedHandle
    from sgc.trace.state import TracedState

    if isinstance(value, TracedHandle):
        return region.lift(value.symbol)
    if isinstance(value, Branch):
        return operand(trace, value.index, region)
    if isinstance(value, TracedState | Forks):
        raise refuse("a stream is no data; read its variables or its text()")
    if isinstance(value, set | frozenset):
        raise refuse("a set has no order that a graph could keep; use sorted(...) or a list")
    raise refuse(
        f"a value of type {type(value).__name__} is not plain data (text, number, bool, None, "
        "list, tuple, dict); convert it, or use sgc.call with a tool"
    )


def _joined(trace: Trace, value: list[Any], region: Region) -> Any:
    """A list with Spreads: its stretches, added up."""
    pieces: list[Any] = []
    stretch: list[Any] = []
    for item in value:
        if type(item) is Spread:
            pieces += [stretch, item.value] if stretch else [item.value]
            stretch = []
        else:
            stretch.append(item)
    pieces += [stretch] if stretch else []
    total = operand(trace, pieces[0], region)
    for piece in pieces[1:]:
        args = (total, operand(trace, piece, region))
        node = trace.node(Op.EXPR, {"fn": "+", "args": args}, region=region, may_fail=False)
        total = Ref(node)
    return total


# -- what is inside of a value ------------------------------------------------------------------


def holds_symbol(value: Any) -> bool:
    """Whether a symbol, marker or stream is anywhere inside of `value`."""
    return any(type(v) in MARKS or _is_stream(v) for v in walk(value))


def holds_spread(value: Any) -> bool:
    """Whether the list `value` itself holds a Spread or Poison."""
    return type(value) is list and any(type(v) is Spread or type(v) is Poison for v in value)


def is_data(value: Any) -> bool:
    """Whether `value` is a run-time value, a text, a number, True, False or None."""
    return type(value) is Symbol or type(value) in _SCALARS


def _is_stream(value: Any) -> bool:
    return is_stream(value)


def walk(root: Any) -> Iterator[Any]:
    """`root` and all that is inside of it: items of containers, attributes of objects."""
    seen: set[int] = set()
    todo = [root]
    while todo:
        value = todo.pop()
        yield value
        kind = type(value)
        if kind in _SCALARS or kind in MARKS or id(value) in seen:
            continue
        seen.add(id(value))
        todo.extend(parts(value))


def parts(value: Any) -> list[Any]:
    """What is directly inside of a container, an object or a function's closure."""
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, slice):
        return [value.start, value.stop, value.step]
    if getattr(type(value), "_sgc_opaque", False) or _is_stream(value) or isinstance(value, type):
        return []
    found: list[Any] = []
    for name in getattr(type(value), "__slots__", None) or ():
        if isinstance(name, str) and hasattr(type(value), name) and hasattr(value, name):
            found.append(getattr(value, name))
    if _has_state(value):
        found.extend(vars(value).values())
    return found


def _has_state(value: Any) -> bool:
    module = type(value).__module__
    return hasattr(value, "__dict__") and not callable(value) and module != "builtins"


# -- structure across the borders of graphs -----------------------------------------------------


def form_of(value: Any) -> Form:
    """What is known of a value, its structure included."""
    from sgc.trace.forks import Branch
    from sgc.trace.handle import TracedHandle

    if type(value) is Symbol:
        return value.form
    if isinstance(value, TracedHandle):
        return value.symbol.form
    if isinstance(value, Branch):
        return Form("branch", target=value.family)
    if type(value) is list and holds_spread(value):
        return _spread_form(value)
    if type(value) in (list, tuple):
        forms = tuple(form_of(v) for v in value)
        item = forms[0] if forms and all(f == forms[0] for f in forms) else None
        return Form(type(value).__name__, item, parts=forms)
    if type(value) is dict:
        if whole(value) is not None:
            return Form("dict")
        return Form("dict", parts=tuple(map(form_of, value.values())), keys=tuple(value))
    return form_of_constant(value)


def _spread_form(value: list[Any]) -> Form:
    forms = []
    for item in value:
        if type(item) is Spread:
            forms.append(item.value.form.item)
        else:
            forms.append(form_of(item))
    same = all(f == forms[0] for f in forms)
    return Form("list", forms[0] if same else None)


def rebuild(trace: Trace, symbol: Symbol, structure: bool = False) -> Any:
    """The value of `symbol` with its handles and branches as Python objects, inside of their
    containers; with `structure`, plain data of known structure as Python containers too."""
    form = symbol.form
    if form.is_data and not (structure and form.parts is not None):
        return symbol
    if form.kind == "handle":
        from sgc.trace.handle import TracedHandle

        return TracedHandle(trace, symbol)
    if form.kind == "branch":
        return form.target.branch(symbol)
    if form.parts is None:
        return symbol
    keys = form.keys if form.kind == "dict" and form.keys is not None else range(len(form.parts))
    values = [_part(trace, symbol, k, f, structure) for k, f in zip(keys, form.parts, strict=True)]
    if form.kind == "dict":
        return dict(zip(keys, values, strict=True))
    return tuple(values) if form.kind == "tuple" else values


def _part(trace: Trace, symbol: Symbol, key: Any, form: Form, structure: bool) -> Any:
    attrs = {"fn": "getitem", "args": (trace.operand(symbol), key)}
    node = trace.node(Op.EXPR, attrs, may_fail=False)
    return rebuild(trace, Symbol(trace.region, node, form), structure)
