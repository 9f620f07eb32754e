"""Labels of nodes: values are written into the place that uses them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sgc_ir.drawing.values import View, appended_text, name_of, value_label, walk_label
from sgc_ir.drawing.words import MAX_CELLS, shorten, visible, wrap
from sgc_ir.graph import Node, Ref
from sgc_ir.ops import Op


def node_lines(view: View, node: Node) -> tuple[str, ...]:
    """Title and details of a node, each line short and printable."""
    return tuple(visible(line) for line in _LINES[node.op](view, node))


def _text_lines(view: View, node: Node) -> list[str]:
    if not node.appends:
        return wrap(f"{_target(node)}{name_of(view, node)}", lines=2)
    if node.op is Op.CONSTANT_TEXT:
        return wrap(visible(node.attrs["text"]))
    if node.op is Op.EXPR:
        fn, args = node.attrs["fn"], node.attrs["args"]
        if fn in ("text", "concat", "+"):
            return wrap("".join(appended_text(view, arg) for arg in args))
    return wrap("{" + name_of(view, node) + "}")


def _target(node: Node) -> str:
    return f"%{node.id} = "


def _call_lines(view: View, node: Node) -> list[str]:
    title = f"{'gen' if node.op is Op.GEN else 'select'} {node.attrs['name']}"
    details = [
        f"{name}={value_label(view, value)}"
        for name, value in node.attrs.items()
        if name not in ("name", "ordinal", "choices")
    ]
    if "choices" in node.attrs:
        details.insert(0, value_label(view, node.attrs["choices"]))
    return [shorten(visible(title), MAX_CELLS), *wrap(visible(", ".join(details)), lines=2)]


def _fork_lines(view: View, node: Node) -> list[str]:
    name = name_of(view, node)
    if node.attrs.get("copy"):
        return [f"copy {name}"]
    if "items" in node.attrs:
        return wrap(f"fork {name} each {value_label(view, node.attrs['items'])}", lines=2)
    return wrap(f"fork {name} × {value_label(view, node.attrs['width'])}", lines=2)


def _join_lines(view: View, node: Node) -> list[str]:
    fork = name_of(view, view.graph.nodes[node.attrs["fork"].node])
    names = ", ".join(node.attrs.get("vars", {}))
    return wrap(f"join {fork} {node.attrs['mode']}" + (f": {names}" if names else ""), lines=2)


def _loop_lines(view: View, node: Node) -> list[str]:
    carried = ", ".join(node.attrs.get("carried", {}))
    return wrap(walk_label(view, node) + (f", carrying {carried}" if carried else ""), 60, 2)


def _arguments_lines(view: View, node: Node) -> list[str]:
    callee = node.attrs.get("tool", node.attrs.get("callee"))
    given = node.attrs["args"]
    named = dict(given) if isinstance(given, Mapping) else dict(node.attrs.get("kwargs", {}))
    words = [] if isinstance(given, Mapping) else [value_label(view, v) for v in given]
    words += [f"{name}={value_label(view, v)}" for name, v in named.items()]
    verb = "call" if node.op is Op.CALL else "run"
    return wrap(visible(f"{verb} {callee}({', '.join(words)})"))


def _first_lines(view: View, node: Node) -> list[str]:
    among = node.attrs.get("among", node.attrs.get("fork"))
    refs = [among] if isinstance(among, Ref) else list(among)
    names = ", ".join(value_label(view, ref) for ref in refs)
    count = value_label(view, node.attrs["count"])
    return wrap(visible(f"first {count} of {names}"), lines=2)


def _branch_lines(view: View, node: Node) -> list[str]:
    failed = " failed" if "on" in node.attrs else ""
    return wrap(visible(f"if {value_label(view, node.attrs['cond'])}{failed}"), lines=2)


def _return_lines(view: View, node: Node) -> list[str]:
    attrs = node.attrs
    lines = wrap(visible(f"return {value_label(view, attrs['value'])}"), lines=2)
    if "kind" in attrs:
        leaves = f"left if {value_label(view, attrs['kind'])}"
        lines += wrap(visible(leaves), lines=1)
    return lines


_LINES: dict[Op, Callable[[View, Node], list[str]]] = {
    Op.CONSTANT_TEXT: _text_lines,
    Op.ARGUMENT: _text_lines,
    Op.VARIABLE: _text_lines,
    Op.EXPR: _text_lines,
    Op.GEN: _call_lines,
    Op.SELECT: _call_lines,
    Op.FORK: _fork_lines,
    Op.GET_FORK_ITEM: lambda view, node: [f"branch {name_of(view, node)}"],
    Op.JOIN: _join_lines,
    Op.ROLE_BEGIN: lambda view, node: [str(node.attrs["role"])],
    Op.ROLE_END: lambda view, node: [f"end {node.attrs['role']}"],
    Op.IMAGE: lambda view, node: wrap(f"image {value_label(view, node.attrs['data'])}", lines=2),
    Op.VIDEO: lambda view, node: wrap(f"video {value_label(view, node.attrs['data'])}", lines=2),
    Op.CALL: _arguments_lines,
    Op.SUB_PROGRAM: _arguments_lines,
    Op.FIRST: _first_lines,
    Op.PREFIX_HINT: lambda view, node: [
        f"hint: {value_label(view, node.attrs['readers'])} readers"
    ],
    Op.BRANCH: _branch_lines,
    Op.MERGE: lambda view, node: wrap(f"{_target(node)}{name_of(view, node)}", lines=2),
    Op.LOOP: _loop_lines,
    Op.RETURN: _return_lines,
}
