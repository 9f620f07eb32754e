"""What a picture shows of a program: boxes of items in lanes, and edges between them.

A box is a graph, a loop's body inside its loop, or a program that is called. Values that others
use, loops that only compute among them, are written into those others' labels, so that only
texts, calls, forks and loops with an effect are items.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sgc_ir.drawing.labels import node_lines
from sgc_ir.drawing.values import View, body_view
from sgc_ir.drawing.words import shorten, visible
from sgc_ir.graph import MISSING, ROOT_STREAM, Graph, Node, Program, Ref, Token, iter_refs
from sgc_ir.ops import Op
from sgc_ir.paths import captured_forks, node_path, stream_paths
from sgc_ir.textform.printer import value_text

_VALUES = (Op.ARGUMENT, Op.VARIABLE, Op.EXPR, Op.MERGE)
_UNSHOWN = (Op.ARGUMENT, Op.VARIABLE, Op.MERGE)  # no items, even where nobody uses them
MAX_TITLE_CELLS = 100


@dataclass(frozen=True, slots=True)
class Item:
    """A node in the picture.

    Attributes:
        key: identifier that is unique in the picture, letters, digits and underscores only.
        lane: the stream in which it stands; a GetForkItem stands at the head of its own.
        in_stream: it is part of the stream's sequence, not beside it.
        lines: the label.
        path: of the node, see `paths`.
        note: path and source, for a tooltip.
        box: the body of a loop.
    """

    key: str
    node: Node
    lane: int
    in_stream: bool
    lines: tuple[str, ...]
    path: str
    note: str
    box: Box | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """From one item to a later one; `kind` is order (of a stream) or data. From a branch to what
    begins one of its arms, `label` says which."""

    source: int
    target: int
    kind: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Box:
    """Items by node id; `lanes` are streams from left to right, branches behind their parent."""

    key: str
    title: str
    items: dict[int, Item] = field(default_factory=dict)
    edges: tuple[Edge, ...] = ()
    lanes: tuple[int, ...] = (ROOT_STREAM,)


def picture(program: Program) -> list[Box]:
    """The boxes of a program: its main graph first, then the programs that it calls."""
    names = sorted(program.graphs, key=lambda name: (name != program.main, name))
    return [
        _box(View(program.graphs[name]), f"g{index}", signature(program.graphs[name]), "", {})
        for index, name in enumerate(names)
    ]


def signature(graph: Graph) -> str:
    """Name and parameters of a graph as a title."""
    params = []
    for param in graph.params:
        text = param.name + (f": {param.annotation}" if param.annotation else "")
        if param.default is not MISSING:
            text += f" = {value_text(param.default)}"
        params.append(shorten(text, 60))
    return shorten(visible(f"{graph.name}({', '.join(params)})"), MAX_TITLE_CELLS)


def _box(
    view: View, key: str, title: str, root: str, forks: dict[str, str], is_body: bool = False
) -> Box:
    graph = view.graph
    paths = stream_paths(graph, root, forks)
    inlined = _inlined(graph)
    if is_body and graph.nodes[-1].attrs.get("value") is None:
        inlined.add(len(graph.nodes) - 1)
    items: dict[int, Item] = {}
    for node in graph.nodes:
        if node.id in inlined:
            continue
        lines = node_lines(view, node)
        body = None
        if node.body is not None and not _is_value(node):
            inner = captured_forks(graph, node, paths, forks)
            stream = paths.get(node.stream, "?")
            inner_view = body_view(view, node, node.body)
            body = _box(inner_view, f"{key}_{node.id}", " ".join(lines), stream, inner, True)
        place = f" at {node.source}" if node.source.line else ""
        path = node_path(node, paths)
        items[node.id] = Item(
            key=f"{key}_n{node.id}",
            node=node,
            lane=node.id if node.op is Op.GET_FORK_ITEM else node.stream,
            in_stream=node.appends or node.op in (Op.GET_FORK_ITEM, Op.RETURN),
            lines=lines,
            path=path,
            note=visible(f"%{node.id} {node.op} {path}{place}"),
            box=body,
        )
    edges = tuple(_edges(graph, items))
    return Box(key, title, items, edges, tuple(_lanes(graph, items)))


def _inlined(graph: Graph) -> set[int]:
    """Nodes that are no items: values that stand in the label of whoever uses them, branches
    that are only read."""
    used = {ref.node for node in graph.nodes for ref in node.refs()}
    used |= _counters(graph)
    streams = {node.stream for node in graph.nodes}
    return {
        node.id
        for node in graph.nodes
        if (_is_value(node) and (node.id in used or node.op in _UNSHOWN))
        or (node.op is Op.GET_FORK_ITEM and node.id not in streams and node.id in used)
    }


def _counters(graph: Graph) -> set[int]:
    """Sums of numbers that stand in the graph: how many calls a stream has made on its path."""
    found: set[int] = set()
    for node in graph.nodes:
        parts: Sequence[Any] = ()
        if node.op is Op.MERGE:
            parts = node.attrs["values"]
        elif node.op is Op.EXPR and node.attrs["fn"] == "+":
            parts = node.attrs["args"]
        numbers = (p.node in found if isinstance(p, Ref) else type(p) is int for p in parts)
        if parts and all(numbers):
            found.add(node.id)
    return found


def _is_value(node: Node) -> bool:
    """Whether a node only computes; a Loop does when every node of its body does."""
    if node.op is Op.LOOP and node.body is not None:
        inner = (Op.GET_FORK_ITEM, Op.RETURN)
        return all(_is_value(item) or item.op in inner for item in node.body.nodes)
    if node.op is Op.EXPR and node.attrs["fn"] in ("set", "fail"):
        return False
    return node.op in _VALUES and not node.appends


def _lanes(graph: Graph, items: dict[int, Item]) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for item in items.values():
        if item.node.op is Op.GET_FORK_ITEM:
            fork = graph.nodes[item.node.attrs["fork"].node]
            children.setdefault(fork.stream, []).append(item.node.id)
    # A body may go on with a branch that it was given.
    used = {item.lane for item in items.values()} - {ROOT_STREAM}
    given = [lane for lane in used if graph.nodes[lane].op is Op.ARGUMENT]
    stack = [*sorted(given, reverse=True), ROOT_STREAM]
    while stack:
        lane = stack.pop()
        yield lane
        stack.extend(reversed(children.get(lane, [])))


def _edges(graph: Graph, items: dict[int, Item]) -> Iterator[Edge]:
    last: dict[int, int] = {}
    seen: set[tuple[int, int]] = set()
    for item in items.values():
        node = item.node
        begins = node.control is not None
        if item.in_stream:
            before = last.get(item.lane)
            if node.op is Op.GET_FORK_ITEM:
                before = node.attrs["fork"].node
            if before in items:
                begins = node.control not in (None, graph.nodes[before].control)
                seen.add((before, node.id))
                yield Edge(before, node.id, "order")
            last[item.lane] = node.id
        for source, label in _arms(graph, node.control) if begins else ():
            if source in items and (source, node.id) not in seen:
                seen.add((source, node.id))
                yield Edge(source, node.id, "data", label)
        for source in sorted(_sources(graph, node, items)):
            inside = items[source].in_stream and items[source].lane == item.lane
            if node.op is Op.RETURN and inside:
                continue  # the label says it, and the order shows where it comes from
            if (source, node.id) not in seen:
                seen.add((source, node.id))
                opens = node.op is Op.LOOP and graph.nodes[source].op is Op.FORK
                yield Edge(source, node.id, "order" if opens else "data")


def _arms(graph: Graph, token: Token | None) -> Iterator[tuple[int, str]]:
    """The branches on whose outcomes a token waits, each with the outcome."""
    if token is None:
        return
    node, arm = graph.nodes[token[0]], token[1]
    if node.op is Op.BRANCH:
        yield node.id, "yes" if arm else "no"
        return
    for ref, outcome in node.attrs.get("tokens", ()):
        yield from _arms(graph, (ref.node, outcome))


def _sources(graph: Graph, node: Node, items: dict[int, Item]) -> set[int]:
    """Items whose values a node uses, directly or through inlined values; a fork is left out
    where a loop over it is among them."""
    found = _reached(graph, node, items)
    loops = {at for at in found if graph.nodes[at].op is Op.LOOP}
    return {at for at in found if not (loops and graph.nodes[at].op is Op.FORK)}


def _reached(graph: Graph, node: Node, items: dict[int, Item]) -> set[int]:
    found: set[int] = set()
    stack = list(_shown_refs(node))
    visited: set[int] = set()
    while stack:
        at = stack.pop()
        if at in visited:
            continue
        visited.add(at)
        if at in items:
            found.add(at)
        else:
            stack.extend(ref.node for ref in graph.nodes[at].refs())
    return found


def _shown_refs(node: Node) -> Iterator[int]:
    """Nodes that a node refers to; an ordinal that the run decides only numbers it."""
    for name, value in node.attrs.items():
        if name != "ordinal":
            yield from (ref.node for ref in iter_refs(value))
