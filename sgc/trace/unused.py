"""Drops merges that nothing reads: joins make them for every slot that paths leave different."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sgc_ir.graph import ROOT_STREAM, Node, Ref, Token, map_refs
from sgc_ir.ops import Op


def without_unused(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes of a finished graph, numbered anew. A Merge does nothing and cannot fail but by
    what fails already, so that leaving out one that is not read changes no run."""
    used: set[int] = set()
    kept: list[Node] = []
    for node in reversed(nodes):
        if _is_idle(node) and node.id not in used:
            continue
        kept.append(node)
        used |= {ref.node for ref in node.refs()}
        used |= {node.stream} if node.control is None else {node.stream, node.control[0]}
    if len(kept) == len(nodes):
        return tuple(nodes)
    kept.reverse()
    places = {node.id: at for at, node in enumerate(kept)}

    def moved(ref: Ref) -> Ref:
        return Ref(places[ref.node])

    return tuple(
        replace(
            node,
            id=at,
            stream=ROOT_STREAM if node.stream == ROOT_STREAM else places[node.stream],
            attrs={name: map_refs(value, moved) for name, value in node.attrs.items()},
            control=_moved_token(node.control, places),
        )
        for at, node in enumerate(kept)
    )


def _is_idle(node: Node) -> bool:
    return node.op is Op.MERGE or (node.op is Op.EXPR and node.attrs["fn"] == "is_set")


def _moved_token(token: Token | None, places: dict[int, int]) -> Token | None:
    return None if token is None else (places[token[0]], token[1])
