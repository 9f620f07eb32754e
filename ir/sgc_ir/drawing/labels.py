"""Labels of nodes: values are written into the place that uses them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sgc_ir.drawing.values import appended_text, name_of, value_label, walk_label
from sgc_ir.drawing.words import MAX_CELLS, shorten, visible, wrap
from sgc_ir.graph import Graph, Node
from sgc_ir.ops import Op


def node_lines(graph: Graph, node: Node) -> tuple[str, ...]:
    """Title and details of a node, each line short and printable."""
    return tuple(visible(line) for line in _LINES[node.op](graph, node))


def _text_lines(graph: Graph, node: Node) -> list[str]:
    if not node.appends:
        return wrap(f"{_target(node)}{name_of(graph, node)}", lines=2)
    if node.op is Op.CONSTANT_TEXT:
        return wrap(visible(node.attrs["text"]))
    if node.op is Op.EXPR:
        fn, args = node.attrs["fn"], node.attrs["args"]
        if fn in ("text", "concat", "+"):
            return wrap("".join(appended_text(graph, arg) for arg in args))
    return wrap("{" + name_of(graph, node) + "}")


def _target(node: Node) -> str:
    return f"%{node.id} = "


def _call_lines(graph: Graph, node: Node) -> list[str]:
    title = f"{'gen' if node.op is Op.GEN else 'select'} {node.attrs['name']}"
    details = [
        f"{name}={value_label(graph, value)}"
        for name, value in node.attrs.items()
        if name not in ("name", "ordinal", "choices")
    ]
    if "choices" in node.attrs:
        details.insert(0, value_label(graph, node.attrs["choices"]))
    return [shorten(visible(title), MAX_CELLS), *wrap(visible(", ".join(details)), lines=2)]


def _fork_lines(graph: Graph, node: Node) -> list[str]:
    name = name_of(graph, node)
    if node.attrs.get("copy"):
        return [f"copy {name}"]
    if "items" in node.attrs:
        return wrap(f"fork {name} each {value_label(graph, node.attrs['items'])}", lines=2)
    return wrap(f"fork {name} × {value_label(graph, node.attrs['width'])}", lines=2)


def _join_lines(graph: Graph, node: Node) -> list[str]:
    fork = name_of(graph, graph.nodes[node.attrs["fork"].node])
    names = ", ".join(node.attrs.get("vars", {}))
    return wrap(f"join {fork} {node.attrs['mode']}" + (f": {names}" if names else ""), lines=2)


def _loop_lines(graph: Graph, node: Node) -> list[str]:
    return wrap(walk_label(graph, node), 60, 2)


def _arguments_lines(graph: Graph, node: Node) -> list[str]:
    callee = node.attrs.get("tool", node.attrs.get("callee"))
    given = node.attrs["args"]
    named = dict(given) if isinstance(given, Mapping) else dict(node.attrs.get("kwargs", {}))
    words = [] if isinstance(given, Mapping) else [value_label(graph, v) for v in given]
    words += [f"{name}={value_label(graph, v)}" for name, v in named.items()]
    verb = "call" if node.op is Op.CALL else "run"
    return wrap(visible(f"{verb} {callee}({', '.join(words)})"))


def _return_lines(graph: Graph, node: Node) -> list[str]:
    return wrap(visible(f"return {value_label(graph, node.attrs['value'])}"), lines=2)


_LINES: dict[Op, Callable[[Graph, Node], list[str]]] = {
    Op.CONSTANT_TEXT: _text_lines,
    Op.ARGUMENT: _text_lines,
    Op.VARIABLE: _text_lines,
    Op.EXPR: _text_lines,
    Op.GEN: _call_lines,
    Op.SELECT: _call_lines,
    Op.FORK: _fork_lines,
    Op.GET_FORK_ITEM: lambda graph, node: [f"branch {name_of(graph, node)}"],
    Op.JOIN: _join_lines,
    Op.ROLE_BEGIN: lambda graph, node: [str(node.attrs["role"])],
    Op.ROLE_END: lambda graph, node: [f"end {node.attrs['role']}"],
    Op.IMAGE: lambda graph, node: wrap(f"image {value_label(graph, node.attrs['data'])}", lines=2),
    Op.VIDEO: lambda graph, node: wrap(f"video {value_label(graph, node.attrs['data'])}", lines=2),
    Op.CALL: _arguments_lines,
    Op.SUB_PROGRAM: _arguments_lines,
    Op.PREFIX_HINT: lambda graph, node: [
        f"hint: {value_label(graph, node.attrs['readers'])} readers"
    ],
    Op.BRANCH: lambda graph, node: wrap(f"if {value_label(graph, node.attrs['cond'])}", lines=2),
    Op.MERGE: lambda graph, node: wrap(
        f"%{node.id} = one of {value_label(graph, node.attrs['values'])}", lines=2
    ),
    Op.LOOP: _loop_lines,
    Op.RETURN: _return_lines,
}
