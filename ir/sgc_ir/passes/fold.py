"""Constant folding: expressions of constants are evaluated, constant parts are put together.

Requires: nothing. Keeps behaviour, because every function of `sgc_ir.expr` depends on its operands
alone and has no effect, so that its result now is its result in each run; one that raises is left
where it stands, and raises there. Results that a graph cannot hold, or that are long, are left
alone too. What names a node and not its value (a stream, a writer, a capture) keeps the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sgc_ir.errors import SgcError
from sgc_ir.expr import evaluate
from sgc_ir.graph import UNSET, Graph, Node, Program, Ref, map_refs
from sgc_ir.ops import Op
from sgc_ir.passes.base import Context, Notes, Report, each_graph
from sgc_ir.passes.editor import Editor
from sgc_ir.passes.uses import named_nodes
from sgc_ir.passes.values import MAX_ITEMS, MAX_TEXT, is_plain, joined, shown

NAME = "fold"
_NEVER = ("set", "fail", "raise_again")  # they do something else than to give a value
_IDENTITY = ("is", "is not")


def run(program: Program, context: Context) -> tuple[Program, Report]:
    """Fold every graph."""
    return each_graph(program, NAME, _fold)


def _fold(graph: Graph, notes: Notes) -> Graph:
    editor = Editor(graph)
    named = named_nodes(graph)
    known: dict[int, Any] = {}
    for node in graph.nodes:
        if node.op is not Op.EXPR or node.attrs["fn"] in _NEVER:
            continue
        attrs = _known_attrs(node.attrs, known)
        if attrs["fn"] == "default" and attrs["args"][0] is UNSET and node.id not in named:
            editor.replace_value(node.id, attrs["args"][1])
            editor.drop(node.id)
            continue
        found = _value(attrs)
        if found is not None:
            _fold_node(editor, node, found[0], node.id in named, notes)
            if not node.attrs.get("append"):
                known[node.id] = found[0]
        elif node.attrs["fn"] == "concat":
            _shorten(editor, node, attrs["args"], notes)
    return editor.done()


def _known_attrs(attrs: Mapping[str, Any], known: Mapping[int, Any]) -> Mapping[str, Any]:
    if not known:
        return attrs

    def value(ref: Ref) -> Any:
        return known.get(ref.node, ref)

    return {k: map_refs(v, value) for k, v in attrs.items()}


def _value(attrs: Mapping[str, Any]) -> tuple[Any] | None:
    """What the expression gives in every run, or None where that is not known."""
    args, kwargs = attrs["args"], attrs.get("kwargs") or {}
    if attrs["fn"] == "is_set" and args[0] is UNSET:
        return (False,)
    if not is_plain((args, kwargs)):
        return None
    if attrs["fn"] in _IDENTITY and not all(a is None or type(a) is bool for a in args):
        return None  # containers are copied between nodes
    try:
        value = evaluate(attrs["fn"], args, kwargs)
    except (SgcError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError):
        return None  # it raises in the run, where it stands
    return (value,) if is_plain(value, MAX_TEXT, MAX_ITEMS) else None


def _fold_node(editor: Editor, node: Node, value: Any, is_named: bool, notes: Notes) -> None:
    if node.attrs.get("append"):
        text = value if isinstance(value, str) else str(value)
        editor.update(node.id, op=Op.CONSTANT_TEXT, attrs={"text": text})
        notes.add(node, f"is the constant text {shown(text)}")
    elif not is_named:
        editor.replace_value(node.id, value)
        editor.drop(node.id)
        notes.add(node, f"{node.attrs['fn']} is the constant {shown(value)}")


def _shorten(editor: Editor, node: Node, args: Any, notes: Notes) -> None:
    """Put neighbouring constant parts of a concatenation together."""
    parts = joined(args)
    if len(parts) < len(args):
        editor.set_attrs(node.id, {"args": tuple(parts)})
        notes.add(node, f"concatenates {len(parts)} parts instead of {len(args)}")
