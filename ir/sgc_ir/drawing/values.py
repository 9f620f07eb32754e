"""Operands as short expressions over names, as the program would have written them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sgc_ir.drawing.words import MAX_CELLS, cells, shorten, visible
from sgc_ir.graph import Graph, Node, Ref, forks_of
from sgc_ir.ops import Op
from sgc_ir.textform.printer import value_text

MAX_NAME_CELLS = 24  # longer labels do not stand for a parameter
MAX_DEPTH = 6  # nested expressions beyond this are shown as `..`
_INFIX = {"+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"}
_MADE_UP = re.compile("item[0-9]+")
_INFIX |= {"and", "or", "is", "is not"}


@dataclass(frozen=True, slots=True)
class View:
    """A graph with the words by which its parameters are spoken of, where these differ."""

    graph: Graph
    names: Mapping[str, str] = field(default_factory=dict)


def body_view(view: View, loop: Node, body: Graph) -> View:
    """View of a loop's body: captured values go by their outer names, and items whose names
    the tracer made up by what is walked: `dimensions[index]`."""
    names: dict[str, str] = {}
    for param, ref in loop.attrs["captures"].items():
        _rename(names, param, value_label(view, ref, 1))
    index = loop.attrs["index_param"]
    for param, value in zip(loop.attrs["item_params"], loop.attrs["over"], strict=True):
        if index and _MADE_UP.fullmatch(param):
            _rename(names, param, f"{value_label(view, value, 1)}[{index}]")
    return View(body, names)


def _rename(names: dict[str, str], param: str, label: str) -> None:
    if cells(label) <= MAX_NAME_CELLS:
        names[param] = label


def value_label(view: View, value: Any, depth: int = 0) -> str:
    """An operand as a short expression over names."""
    if depth > MAX_DEPTH:
        return ".."
    if isinstance(value, Ref):
        return name_of(view, view.graph.nodes[value.node], depth + 1)
    if isinstance(value, str):
        return value_text(shorten(value, MAX_CELLS))
    if isinstance(value, list | tuple):
        inner = _joined(view, value, depth + 1)
        if isinstance(value, tuple) and len(value) == 1:
            inner += ","
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    if isinstance(value, Mapping):
        pairs = [f"{k}: {value_label(view, v, depth + 1)}" for k, v in list(value.items())[:8]]
        return "{" + ", ".join(pairs) + (", .." if len(value) > 8 else "") + "}"
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    return shorten(value_text(value), MAX_CELLS)


def _joined(view: View, values: Sequence[Any], depth: int) -> str:
    shown = [value_label(view, v, depth) for v in values[:12]]
    return ", ".join(shown) + (", .." if len(values) > 12 else "")


def name_of(view: View, node: Node, depth: int = 0) -> str:
    """The name by which a value is spoken of."""
    attrs = node.attrs
    match node.op:
        case Op.ARGUMENT:
            return str(view.names.get(attrs["name"], attrs["name"]))
        case Op.GEN | Op.SELECT:
            return str(attrs["name"])
        case Op.VARIABLE:
            return _variable_label(view, node)
        case Op.EXPR:
            return _expr_label(view, attrs["fn"], attrs["args"], attrs.get("kwargs", {}), depth)
        case Op.CONSTANT_TEXT:
            return value_label(view, attrs["text"], depth)
        case Op.FORK:
            return f"f{_ordinal(attrs['ordinal'])}"
        case Op.GET_FORK_ITEM:
            return _branch_label(view, node, depth)
        case Op.LOOP if node.body is not None:
            return _loop_label(view, node, node.body, depth)
        case Op.CALL:
            return f"{attrs['tool']}(..)"
        case Op.SUB_PROGRAM:
            return f"{attrs['callee']}(..)"
        case Op.FIRST:
            return f"first({value_label(view, attrs['count'], depth)}, ..)"
        case Op.BRANCH:
            failed = " failed" if "on" in attrs else ""
            return f"{value_label(view, attrs['cond'], depth)}{failed}"
        case Op.MERGE if attrs["values"]:
            return _merge_label(view, node, depth)
        case _:
            return f"%{node.id}"


def _branch_label(view: View, node: Node, depth: int) -> str:
    fork, index = view.graph.nodes[node.attrs["fork"].node], node.attrs["index"]
    shown = value_label(view, index, depth)
    written = view.graph.nodes[index.node].attrs.get("name") if isinstance(index, Ref) else None
    if fork.op is Op.ARGUMENT and shown == written and shown != "index":
        return shown  # in `for f in forks`, f stands for the branch
    name = " + ".join(name_of(view, view.graph.nodes[at], depth) for at in forks_of(node))
    if "more" in node.attrs:
        return f"({name})[{shown}]"
    return shown if shown.startswith(f"{name}[") else f"{name}[{shown}]"


def _merge_label(view: View, node: Node, depth: int) -> str:
    """`a if cond else b` where the arms of one branch meet, else `a or b or c`."""
    shown = [value_label(view, value, depth) for value in node.attrs["values"]]
    tokens = node.attrs["tokens"]
    arms = {arm: value for (_, arm), value in zip(tokens, shown, strict=True)}
    at = {ref.node for ref, _ in tokens}
    branch = view.graph.nodes[tokens[0][0].node]
    if len(tokens) == 2 and len(at) == 1 and len(arms) == 2:
        return f"({arms[True]} if {name_of(view, branch, depth)} else {arms[False]})"
    return f"({' or '.join(shown)})"


def _loop_label(view: View, node: Node, body: Graph, depth: int) -> str:
    inner = body_view(view, node, body)
    value = value_label(inner, body.nodes[-1].attrs["value"], depth)
    return f"[{value} {walk_label(view, node, depth)}]"


def walk_label(view: View, node: Node, depth: int = 0) -> str:
    """`for x, y in zip(xs, ys)` of a Loop, or `for index over xs, ys` where the names of the
    items are made up."""
    index, items = node.attrs["index_param"], node.attrs["item_params"]
    bound = f"at most {value_label(view, node.attrs['max'], depth)}" if "max" in node.attrs else ""
    if not items:
        return f"{f'for {index}, ' if index else ''}{bound} passes"
    bound = f", {bound}" if bound else ""
    over = [value_label(view, value, depth) for value in node.attrs["over"]]
    if index and all(_MADE_UP.fullmatch(name) for name in items):
        return f"for {index} over {', '.join(over)}{bound}"
    names = ", ".join(([index] if index else []) + list(items))
    walked = f"zip({', '.join(over)})" if len(over) > 1 else ", ".join(over)
    return f"for {names} in {f'enumerate({walked})' if index else walked}{bound}"


def _ordinal(ordinal: Any) -> str:
    return str(ordinal) if isinstance(ordinal, int) else "*"


def _variable_label(view: View, node: Node) -> str:
    name, field = str(node.attrs["name"]), node.attrs.get("field", "value")
    if "of" not in node.attrs:
        return str(field)
    owner = view.graph.nodes[node.attrs["of"].node]
    if owner.op in (Op.GET_FORK_ITEM, Op.SUB_PROGRAM):
        name = f"{name_of(view, owner, MAX_DEPTH)}.{name or field}"
    if field == "kind":
        return "left"  # how the loop was left
    return name if field in ("value", "item", "output") or not name else f"{name}.{field}"


def _expr_label(
    view: View, fn: str, args: Sequence[Any], kwargs: Mapping[str, Any], depth: int
) -> str:
    def show(value: Any) -> str:
        return value_label(view, value, depth)

    if fn == "text" or (fn == "format" and args[1:] == ("",)):
        return show(args[0])
    if fn == "concat":
        return f'f"{template(view, args, depth)}"'
    if fn in _INFIX:
        return f" {fn} ".join(show(arg) for arg in args)
    if fn == "if":
        return f"{show(args[1])} if {show(args[0])} else {show(args[2])}"
    if fn == "getitem":
        return f"{show(args[0])}[{show(args[1])}]"
    if fn == "getslice":
        bounds = ["" if bound is None else show(bound) for bound in args[1:3]]
        return f"{show(args[0])}[{':'.join(bounds)}]"
    inner = [show(arg) for arg in args] + [f"{k}={show(v)}" for k, v in kwargs.items()]
    if fn.startswith("."):
        return f"{inner[0]}{fn}({', '.join(inner[1:])})"
    return f"{ {'not': 'not ', 'neg': '-', 'pos': '+'}.get(fn, fn) }({', '.join(inner)})"


def template(view: View, parts: Sequence[Any], depth: int = 0) -> str:
    """Texts as they stand, values in braces."""
    return "".join(
        visible(part) if isinstance(part, str) else "{" + value_label(view, part, depth + 1) + "}"
        for part in parts
    )


def appended_text(view: View, value: Any, depth: int = 0) -> str:
    """What a text operand will read like: nested `concat`, `+` and `text` are written out."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Ref) and depth < MAX_DEPTH:
        node = view.graph.nodes[value.node]
        if node.op is Op.EXPR and node.attrs["fn"] in ("text", "concat", "+"):
            parts = node.attrs["args"]
            return "".join(appended_text(view, part, depth + 1) for part in parts)
    return "{" + value_label(view, value, depth) + "}"
