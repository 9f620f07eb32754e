"""One expression for those of a union that begin with the same."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING

from sgc_ir.automata.merging import head_of, shared_bytes, tail_of, touching
from sgc_ir.automata.nodes import Literal, Node, Repeat, Sequence, Span

if TYPE_CHECKING:
    from sgc_ir.automata.pool import Pool


def by_head(nodes: Iterable[Node]) -> list[list[Node]]:
    """`nodes` in groups that begin with the same."""
    groups: dict[Hashable, list[Node]] = {}
    for node in nodes:
        groups.setdefault(head_of(node), []).append(node)
    return list(groups.values())


def joined(pool: Pool, group: list[Node]) -> list[Node]:
    """What is in any of `group`, which have one head (`merging.head_of`), as few expressions."""
    first = group[0]
    if isinstance(first, Span):
        return [pool.span(first.chars, pool.union([tail_of(part) for part in group]))]
    if isinstance(first, Literal):
        literals = [part for part in group if isinstance(part, Literal)]
        data, offset, size = shared_bytes(literals)
        rests = [pool.literal(p.data, p.tail, p.offset + size) for p in literals]
        return [pool.literal(data, pool.union(rests), offset)]
    head = first.head if isinstance(first, Sequence) else first
    if isinstance(head, Repeat):
        return _merged_counts(pool, group)
    tails = [pool.epsilon if part is head else tail_of(part) for part in group]
    return [pool.then(head, pool.union(tails))]


def _merged_counts(pool: Pool, group: list[Node]) -> list[Node]:
    """Repetitions of one body with one tail, as few as their counts allow."""
    tail = tail_of(group[0]) if isinstance(group[0], Sequence) else pool.epsilon
    repeats = [part.head if isinstance(part, Sequence) else part for part in group]
    counts = [(part.low, part.high) for part in repeats if isinstance(part, Repeat)]
    body = repeats[0].body if isinstance(repeats[0], Repeat) else repeats[0]
    spans = touching(counts)
    return [pool.sequence(pool.repeat(body, low, high), tail) for low, high in spans]
