"""Operands as short expressions over names, as the program would have written them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sgc_ir.drawing.words import MAX_CELLS, shorten, visible
from sgc_ir.graph import Graph, Node, Ref
from sgc_ir.ops import Op
from sgc_ir.textform.printer import value_text

MAX_DEPTH = 6  # nested expressions beyond this are shown as `..`
_INFIX = {"+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"}
_INFIX |= {"and", "or", "is", "is not"}


def value_label(graph: Graph, value: Any, depth: int = 0) -> str:
    """An operand as a short expression over names."""
    if depth > MAX_DEPTH:
        return ".."
    if isinstance(value, Ref):
        return name_of(graph, graph.nodes[value.node], depth + 1)
    if isinstance(value, str):
        return value_text(shorten(value, MAX_CELLS))
    if isinstance(value, list | tuple):
        inner = _joined(graph, value, depth + 1)
        if isinstance(value, tuple) and len(value) == 1:
            inner += ","
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    if isinstance(value, Mapping):
        pairs = [f"{k}: {value_label(graph, v, depth + 1)}" for k, v in list(value.items())[:8]]
        return "{" + ", ".join(pairs) + (", .." if len(value) > 8 else "") + "}"
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    return shorten(value_text(value), MAX_CELLS)


def _joined(graph: Graph, values: Sequence[Any], depth: int) -> str:
    shown = [value_label(graph, v, depth) for v in values[:12]]
    return ", ".join(shown) + (", .." if len(values) > 12 else "")


def name_of(graph: Graph, node: Node, depth: int = 0) -> str:
    """The name by which a value is spoken of."""
    attrs = node.attrs
    match node.op:
        case Op.ARGUMENT | Op.GEN | Op.SELECT:
            return str(attrs["name"])
        case Op.VARIABLE:
            return _variable_label(graph, node)
        case Op.EXPR:
            return _expr_label(graph, attrs["fn"], attrs["args"], attrs.get("kwargs", {}), depth)
        case Op.CONSTANT_TEXT:
            return value_label(graph, attrs["text"], depth)
        case Op.FORK:
            return f"f{_ordinal(graph, attrs['ordinal'])}"
        case Op.GET_FORK_ITEM:
            return _branch_label(graph, node, depth)
        case Op.LOOP if node.body is not None:
            return _loop_label(graph, node, node.body, depth)
        case Op.CALL:
            return f"{attrs['tool']}(..)"
        case Op.SUB_PROGRAM:
            return f"{attrs['callee']}(..)"
        case _:
            return f"%{node.id}"


def _branch_label(graph: Graph, node: Node, depth: int) -> str:
    fork, index = graph.nodes[node.attrs["fork"].node], node.attrs["index"]
    shown = value_label(graph, index, depth)
    if fork.op is Op.ARGUMENT and isinstance(index, Ref) and shown.isidentifier():
        return shown  # in `for f in forks`, the index stands for the branch
    return f"{name_of(graph, fork, depth)}[{shown}]"


def _loop_label(graph: Graph, node: Node, body: Graph, depth: int) -> str:
    value = value_label(body, body.nodes[-1].attrs["value"], depth)
    return f"[{value} {walk_label(graph, node, depth)}]"


def walk_label(graph: Graph, node: Node, depth: int = 0) -> str:
    """`for x, y in zip(xs, ys)` of a Loop; the pass number comes first where the body has it."""
    index = node.attrs["index_param"]
    names = ", ".join(([index] if index else []) + list(node.attrs["item_params"]))
    over = [value_label(graph, value, depth) for value in node.attrs["over"]]
    walked = f"zip({', '.join(over)})" if len(over) > 1 else ", ".join(over)
    return f"for {names} in {f'enumerate({walked})' if index else walked}"


def _ordinal(graph: Graph, ordinal: Any) -> str:
    return str(ordinal) if isinstance(ordinal, int) else "*"


def _variable_label(graph: Graph, node: Node) -> str:
    name, field = str(node.attrs["name"]), node.attrs.get("field", "value")
    if "of" not in node.attrs:
        return field
    owner = graph.nodes[node.attrs["of"].node]
    if owner.op in (Op.GET_FORK_ITEM, Op.SUB_PROGRAM):
        name = f"{name_of(graph, owner, MAX_DEPTH)}.{name or field}"
    return name if field in ("value", "item") or not name else f"{name}.{field}"


def _expr_label(
    graph: Graph, fn: str, args: Sequence[Any], kwargs: Mapping[str, Any], depth: int
) -> str:
    def show(value: Any) -> str:
        return value_label(graph, value, depth)

    if fn in ("text", "str") and len(args) == 1:
        return show(args[0]) if fn == "text" else f"str({show(args[0])})"
    if fn == "concat":
        return f'f"{template(graph, args, depth)}"'
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


def template(graph: Graph, parts: Sequence[Any], depth: int = 0) -> str:
    """Texts as they stand, values in braces."""
    return "".join(
        visible(part) if isinstance(part, str) else "{" + value_label(graph, part, depth + 1) + "}"
        for part in parts
    )


def appended_text(graph: Graph, value: Any, depth: int = 0) -> str:
    """What a text operand will read like: nested `concat`, `+` and `text` are written out."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Ref) and depth < MAX_DEPTH:
        node = graph.nodes[value.node]
        if node.op is Op.EXPR and node.attrs["fn"] in ("text", "concat", "+"):
            parts = node.attrs["args"]
            return "".join(appended_text(graph, part, depth + 1) for part in parts)
    return "{" + value_label(graph, value, depth) + "}"
