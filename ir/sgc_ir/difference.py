"""What differs between two programs, node by node; ids do not matter, paths and contents do."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from sgc_ir.graph import ROOT_STREAM, Graph, Node, Program, Ref, Source, map_refs
from sgc_ir.ops import OPS, Op
from sgc_ir.paths import node_path, stream_paths
from sgc_ir.textform.printer import print_node, value_text


@dataclass(frozen=True, slots=True)
class Difference:
    """A place in which two programs differ.

    Attributes:
        where: name of the graph, with the loops that lead to a body.
        path: path of the first node there, "" where no node is concerned.
        removed, added: lines of the first and of the second program.
    """

    where: str
    path: str
    removed: tuple[str, ...]
    added: tuple[str, ...]

    def __str__(self) -> str:
        head = f"{self.where}: {self.path}" if self.path else self.where
        lines = [f"- {line}" for line in self.removed] + [f"+ {line}" for line in self.added]
        return "\n".join([f"@@ {head} @@", *lines])


def differences(first: Program, second: Program) -> list[Difference]:
    """The places in which `second` differs from `first`, in program order; sources and the numbers
    of nodes are left aside. Empty where both do the same."""
    found = list(_facts(first, second))
    names = [*first.graphs, *(name for name in second.graphs if name not in first.graphs)]
    for name in names:
        found += _graphs(name, first.graphs.get(name), second.graphs.get(name))
    return found


def _facts(first: Program, second: Program) -> Iterator[Difference]:
    for what in ("main", "outputs", "tools", "notes"):
        old, new = (_fact(getattr(program, what)) for program in (first, second))
        if old != new:
            yield Difference("program", what, (old,) if old else (), (new,) if new else ())


def _fact(value: object) -> str:
    if isinstance(value, Mapping):
        value = dict(sorted(value.items()))
    return "" if value is None or value == {} else value_text(value)


def _graphs(where: str, first: Graph | None, second: Graph | None) -> Iterator[Difference]:
    old, new = _lines(first), _lines(second)
    matcher = SequenceMatcher(
        None, [line.content for line in old], [line.content for line in new], autojunk=False
    )
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind != "equal":
            removed, added = old[a:b], new[c:d]
            path = (removed or added)[0].path
            yield Difference(
                where, path, tuple(x.shown for x in removed), tuple(x.shown for x in added)
            )
    yield from _bodies(where, old, new, matcher)


def _bodies(
    where: str, old: list[_Line], new: list[_Line], matcher: SequenceMatcher[str]
) -> Iterator[Difference]:
    """Differences inside of the loops that stand in both graphs."""
    for a, b, length in matcher.get_matching_blocks():
        for one, other in zip(old[a : a + length], new[b : b + length], strict=True):
            if one.body is not None and other.body is not None:
                yield from _graphs(f"{where}, body of {one.path}", one.body, other.body)


@dataclass(frozen=True, slots=True)
class _Line:
    content: str  # without ids, to be compared
    shown: str
    path: str
    body: Graph | None


def _lines(graph: Graph | None) -> list[_Line]:
    if graph is None:
        return []
    paths = stream_paths(graph)
    keys: dict[int, str] = {}
    lines = []
    for node in graph.nodes:
        content = _content(node, keys, paths)
        path = node_path(node, paths)
        has_path = OPS[node.op].path_kind or node.op is Op.GET_FORK_ITEM
        keys[node.id] = path if has_path else _digest(content)
        shown = print_node(replace(node, source=Source()))
        lines.append(_Line(content, f"{shown}  # {path}", path, node.body))
    return [_Line(_params(graph), _params(graph), "parameters", None), *lines]


def _content(node: Node, keys: Mapping[int, str], paths: Mapping[int, str]) -> str:
    def key(ref: Ref) -> str:
        return f"\0{keys[ref.node]}"

    attrs = {name: map_refs(value, key) for name, value in node.attrs.items()}
    bare = replace(
        node, id=0, stream=ROOT_STREAM, control=None, source=Source(), attrs=attrs, body=None
    )
    control = f" if {keys[node.control[0]]} {node.control[1]}" if node.control else ""
    stream = keys.get(node.stream, "")
    return f"{stream}{control} {print_node(bare)}"


def _digest(content: str) -> str:
    return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _params(graph: Graph) -> str:
    return ", ".join(
        f"{'*, ' if p.keyword_only else ''}{p.name}: {p.annotation} = {value_text(p.default)}"
        for p in graph.params
    )
