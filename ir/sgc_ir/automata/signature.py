"""Names of expressions that are the same in every process: equal names mean equal languages."""

from __future__ import annotations

import hashlib
from weakref import WeakKeyDictionary

from sgc_ir.automata.nodes import (
    Complement,
    Delayed,
    Intersection,
    Lazy,
    Literal,
    Node,
    Reference,
    Repeat,
    Sequence,
    Span,
    Union,
)
from sgc_ir.automata.utf8 import CharSet

_SIZE = 16
_sets: WeakKeyDictionary[CharSet, bytes] = WeakKeyDictionary()


class Signatures:
    """Digests of the expressions of one pool, 16 bytes each, remembered.

    Args:
        seed: what the names of rules mean: the digest of the automaton.
    """

    def __init__(self, seed: bytes) -> None:
        self._seed = hashlib.blake2b(seed, digest_size=_SIZE).digest()
        self._nodes: dict[int, bytes] = {}

    def of(self, node: Node) -> bytes:
        """The digest of `node`; without recursion, because chains are long."""
        known = self._nodes
        stack = [node]
        while stack:
            top = stack[-1]
            missing = [part for part in _parts(top) if part.id not in known]
            if missing and top.id not in known:
                stack += missing
                continue
            stack.pop()
            if top.id not in known:
                known[top.id] = self._digest(top)
        return known[node.id]

    def _digest(self, node: Node) -> bytes:
        parts = [self._nodes[part.id] for part in _parts(node)]
        if isinstance(node, Union | Intersection):
            parts.sort()  # they stand in the order of making
        data = [type(node).__name__.encode(), *parts, self._own(node)]
        return hashlib.blake2b(b"\0".join(data), digest_size=_SIZE).digest()

    def _own(self, node: Node) -> bytes:
        if isinstance(node, Literal):
            return node.data[node.offset :]
        if isinstance(node, Span):
            return _of_set(node.chars)
        if isinstance(node, Complement):
            return b"" if node.rest is None else _of_set(node.rest)
        if isinstance(node, Repeat):
            return f"{node.low},{node.high}".encode()
        if isinstance(node, Delayed):
            return node.name.encode()
        if isinstance(node, Lazy):
            return self._seed + node.name.encode()
        if isinstance(node, Reference):
            return self._seed + node.rule.name.encode()
        return b""


def _of_set(chars: CharSet) -> bytes:
    known = _sets.get(chars)
    if known is None:
        data = b"".join(
            bytes((low, high)) + (b"\0" * _SIZE if rest is None else _of_set(rest))
            for low, high, rest in chars.edges
        )
        known = _sets[chars] = hashlib.blake2b(data, digest_size=_SIZE).digest()
    return known


def _parts(node: Node) -> tuple[Node, ...]:
    if isinstance(node, Literal | Span):
        return (node.tail,)
    if isinstance(node, Sequence):
        return node.head, node.tail
    if isinstance(node, Union | Intersection):
        return node.items
    if isinstance(node, Complement | Repeat):
        return (node.body,)
    return ()
