"""Names of expressions that are the same in every process: equal names mean equal languages."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
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
    Span,
    Union,
)
from sgc_ir.automata.parts import parts_of
from sgc_ir.automata.utf8 import CharSet

_SIZE = 16
_sets: WeakKeyDictionary[CharSet, bytes] = WeakKeyDictionary()


class Signatures:
    """Digests of the expressions of one pool, 16 bytes each, remembered.

    Args:
        seed: what the names of rules mean: the digest of the automaton.
        named: names of expressions by their ids (`Pool.named`).
    """

    def __init__(self, seed: bytes, named: Mapping[int, bytes]) -> None:
        self._seed = hashlib.blake2b(seed, digest_size=_SIZE).digest()
        self._nodes = {
            number: hashlib.blake2b(b"\0" + name, digest_size=_SIZE).digest()
            for number, name in named.items()
        }

    def of(self, node: Node) -> bytes:
        """The digest of `node`; without recursion, because chains are long."""
        known = self._nodes
        stack = [node]
        while stack:
            top = stack[-1]
            if top.id not in known:
                parts = parts_of(top)
                digests = [known[part.id] for part in parts if part.id in known]
                if len(digests) < len(parts):
                    stack += [part for part in parts if part.id not in known]
                    continue
                known[top.id] = self._digest(top, digests)
            stack.pop()
        return known[node.id]

    def keep(self, numbers: Collection[int]) -> None:
        """Forget the digests of expressions of other ids."""
        self._nodes = {number: name for number, name in self._nodes.items() if number in numbers}

    def _digest(self, node: Node, parts: list[bytes]) -> bytes:
        if isinstance(node, Union | Intersection):
            parts.sort()  # they stand in the order of making
        data = b"".join((type(node).__name__.encode(), b"\0", *parts, self._own(node)))
        return hashlib.blake2b(data, digest_size=_SIZE).digest()

    def _own(self, node: Node) -> bytes:
        """What is the node's own; of a type, everything before it has one length, or nothing is
        its own."""
        if isinstance(node, Span):
            return _of_set(node.chars)
        if isinstance(node, Literal):
            return node.data[node.offset :]
        if isinstance(node, Repeat):
            return f"{node.low},{node.high}".encode()
        if isinstance(node, Lazy):
            return self._seed + node.name.encode()
        if isinstance(node, Reference):
            return self._seed + node.rule.name.encode()
        if isinstance(node, Delayed):
            return node.name.encode()
        if isinstance(node, Complement):
            return b"" if node.rest is None else _of_set(node.rest)
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
