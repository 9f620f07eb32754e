"""Verifier rules for control flow: tokens exist, operands arrive, what is unset is not read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sgc_ir.graph import UNSET, Graph, Node, Ref, iter_refs
from sgc_ir.ops import Op
from sgc_ir.verify_scope import Faults, Scope

_KINDS = (0, 1, 2)
_MAY_FAIL = (Op.VARIABLE, Op.CALL, Op.FIRST, Op.LOOP, Op.EXPR)


def control(scope: Scope) -> Faults:
    for node in scope.graph.nodes:
        if node.op is Op.MERGE:
            yield from _merge_faults(scope, node)
        if node.control is not None:
            yield from _token_faults(scope, node, node.control, "runs under")


def failures(scope: Scope) -> Faults:
    """A Branch on failures looks at a node that may fail; its error is read where it took one."""
    for node in scope.graph.nodes:
        if node.op is Op.BRANCH and "on" in node.attrs:
            cond = node.attrs["cond"]
            if not isinstance(cond, Ref) or scope.node(cond).op not in _MAY_FAIL:
                yield (
                    node,
                    "asks for a failure of what is no reading, call, Loop or Expr",
                )
            if not node.attrs.get("catch"):
                yield node, "takes no kind of error; it needs a catch"
        elif node.op is Op.BRANCH and "catch" in node.attrs:
            yield node, "has a catch without on"
        elif node.op is Op.VARIABLE and node.attrs.get("field") == "error":
            yield from _error_faults(scope, node)


def _error_faults(scope: Scope, node: Node) -> Faults:
    of = node.attrs.get("of")
    branch = scope.node(of) if isinstance(of, Ref) else None
    if branch is None or branch.op is not Op.BRANCH or "on" not in branch.attrs:
        yield node, "reads the error of what is no Branch on failures"
    elif not scope.tokens.covers(frozenset([(branch.id, True)]), scope.tokens.of_node(node)):
        yield node, f"reads the error of %{branch.id} where it may have taken none"


def _token_faults(scope: Scope, node: Node, token: Any, what: str) -> Faults:
    at, arm = token
    if not 0 <= at < node.id or scope.graph.nodes[at].op not in (Op.BRANCH, Op.MERGE):
        yield node, f"{what} %{at}, which is no earlier Branch or Merge"
    elif not isinstance(arm, bool):
        yield node, f"{what} an arm that is neither true nor false"
    elif not arm and scope.graph.nodes[at].op is Op.MERGE:
        yield node, f"{what} not %{at}, but a Merge has no other arm"


def _merge_faults(scope: Scope, node: Node) -> Faults:
    tokens, values = node.attrs["tokens"], node.attrs["values"]
    if not tokens:
        yield node, "joins no tokens"
    if values and len(values) != len(tokens):
        yield node, f"has {len(values)} values for {len(tokens)} tokens"
    if node.control is not None:
        yield node, "runs under a token; where a Merge stands follows from those that it joins"
    for ref, arm in tokens:
        yield from _token_faults(scope, node, (ref.node, arm), "joins")


def arrivals(scope: Scope) -> Faults:
    """Each operand is there on every path to its use."""
    nodes = scope.graph.nodes
    if not any(node.op is Op.BRANCH for node in nodes):
        return
    tokens = scope.tokens
    for node in nodes:
        need = tokens.of_node(node)
        if node.op is Op.MERGE:
            values = node.attrs["values"]
            pairs = zip(values, node.attrs["tokens"], strict=False)
            uses = [(v, tokens.of((ref.node, arm))) for v, (ref, arm) in pairs]
        else:
            operands = {k: v for k, v in node.attrs.items() if k != "after"}
            uses = [(operands, need)]
        if 0 <= node.stream < node.id:  # else the rule of streams refuses it
            uses.append((Ref(node.stream), need))
        for value, when in uses:
            for ref in iter_refs(value):
                if not tokens.covers(tokens.of_node(nodes[ref.node]), when):
                    yield node, f"uses %{ref.node}, which is not there on every path to it"


# -- what may be unset ----------------------------------------------------------------------------

_PASSES_ON = {
    Op.MERGE: ("values",),
    Op.LOOP: ("carried", "captures"),
    Op.VARIABLE: ("of",),
    Op.JOIN: ("vars",),
}


def unset(scope: Scope) -> Faults:
    """UNSET, and nodes that may be it, are read only by what can tell."""
    found = _unset_nodes(scope.graph, _unset_params(scope))
    for node in scope.graph.nodes:
        for name, value in node.attrs.items():
            if may_pass_unset(node, name):
                continue
            if name not in ("values", "carried", "vars") and holds_unset(value):
                yield node, f"attribute {name} holds UNSET"
            for ref in iter_refs(value):
                if ref.node in found:
                    yield node, f"attribute {name} reads %{ref.node}, which may be unset"
        if node.op not in (Op.MERGE, Op.LOOP) and holds_unset(dict(node.attrs)):
            if node.op is not Op.RETURN or scope.loop is None:
                yield node, "holds UNSET, only a Merge, a Loop and the Return of a body may"


def may_pass_unset(node: Node, name: str) -> bool:
    """Whether an attribute may refer to what may be unset."""
    if node.op is Op.RETURN:
        return name == "vars"
    if node.op is Op.EXPR and name == "args":
        return node.attrs["fn"] in ("is_set", "default", "dict_of_set")
    return name in _PASSES_ON.get(node.op, ())


def holds_unset(value: Any) -> bool:
    """Whether an operand is UNSET or has it in it."""
    if isinstance(value, tuple | list):
        return any(holds_unset(item) for item in value)
    if isinstance(value, dict):
        return any(holds_unset(item) for item in value.values())
    return value is UNSET


def _unset_params(scope: Scope) -> set[str]:
    """Parameters of a body that may be unset in some pass."""
    if scope.loop is None or scope.outer is None:
        return set()
    outside = _unset_nodes(scope.outer.graph, _unset_params(scope.outer))
    given = {**scope.loop.attrs["captures"], **scope.loop.attrs.get("carried", {})}
    return _carried_unset(scope.loop, {n for n, v in given.items() if _is_unset(v, outside)})


def _carried_unset(loop: Node, start: set[str]) -> set[str]:
    """The slots of a Loop that may be unset, those of `start` from the beginning."""
    found, body = set(start), loop.body
    assert body is not None, "a Loop without body passed the attribute rule"
    for _ in range(len(loop.attrs.get("carried", {})) + 1):
        inside = _unset_nodes(body, found)
        new = {n for n, v in _returned(body) if _is_unset(v, inside)} - found
        if not new:
            break
        found |= new
    return found


def _returned(body: Graph) -> Iterator[tuple[str, Any]]:
    last = body.nodes[-1] if body.nodes else None
    if last is not None and last.op is Op.RETURN and isinstance(last.attrs.get("vars"), dict):
        yield from last.attrs["vars"].items()


def _is_unset(value: Any, nodes: set[int]) -> bool:
    return value is UNSET or (isinstance(value, Ref) and value.node in nodes)


def _unset_nodes(graph: Graph, params: set[str]) -> set[int]:
    """Ids of nodes whose value may be UNSET."""
    found: set[int] = set()
    slots: dict[int, set[str]] = {}  # Loop -> slots that may be unset
    for node in graph.nodes:
        attrs = node.attrs
        if not _is_formed(node):
            continue  # of a body, whose attributes are checked after those around it
        if node.op is Op.ARGUMENT and attrs.get("name") in params:
            found.add(node.id)
        elif node.op is Op.MERGE and any(_is_unset(v, found) for v in attrs.get("values", ())):
            found.add(node.id)
        elif node.op is Op.LOOP and attrs.get("carried") and node.body is not None:
            start = {n for n, v in attrs["carried"].items() if _is_unset(v, found)}
            given = {n for n, v in attrs["captures"].items() if _is_unset(v, found)}
            slots[node.id] = _carried_unset(node, start | given)
        elif node.op is Op.VARIABLE and attrs.get("field") == "output":
            of = attrs.get("of")
            if of is not None and attrs["name"] in slots.get(of.node, ()):
                found.add(node.id)
    return found


_FORMS: dict[Op, dict[str, Any]] = {
    Op.ARGUMENT: {"name": str},
    Op.MERGE: {"values": list | tuple},
    Op.LOOP: {"carried": Mapping | None, "captures": Mapping},
    Op.VARIABLE: {"name": str, "of": Ref | None},
}


def _is_formed(node: Node) -> bool:
    forms = _FORMS.get(node.op, {})
    return all(isinstance(node.attrs.get(name), form) for name, form in forms.items())


# -- loops ----------------------------------------------------------------------------------------


def carried(scope: Scope) -> Faults:
    """Carried slots and the Return of a body fit, outputs are slots."""
    for node in scope.graph.nodes:
        if node.op is Op.LOOP and node.body is not None:
            yield from _loop_faults(node, node.body)
        elif node.op is Op.VARIABLE and node.attrs.get("field") in ("output", "kind"):
            yield from _output_faults(scope, node)
        elif node.op is Op.RETURN and "kind" in node.attrs:
            kind = node.attrs["kind"]
            if scope.loop is None:
                yield node, "has a kind, which only the Return of a body has"
            elif not isinstance(kind, Ref) and (isinstance(kind, bool) or kind not in _KINDS):
                yield node, f"has kind {kind!r}; it must be 0, 1 or 2"


def _loop_faults(node: Node, body: Graph) -> Faults:
    if not node.attrs["over"] and "max" not in node.attrs:
        yield node, "needs lists to walk, or a max"
    slots, returned = set(node.attrs.get("carried", {})), {name for name, _ in _returned(body)}
    for name in sorted(slots ^ returned, key=repr):  # names of any type
        where = "returned, but not carried" if name in returned else "carried, but not returned"
        yield node, f"slot {name!r} is {where}"


def _output_faults(scope: Scope, node: Node) -> Faults:
    loop = scope.node(node.attrs["of"])
    if loop.op is not Op.LOOP:
        yield node, f"reads an output of %{loop.id}, a {loop.op}"
    elif node.attrs["field"] == "output" and node.attrs["name"] not in loop.attrs.get(
        "carried", {}
    ):
        yield node, f"reads output {node.attrs['name']!r}, which %{loop.id} does not carry"
