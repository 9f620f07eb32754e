"""Names of expressions that are the same in every process: equal names mean equal languages."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from sgc_ir.automata.nodes import (
    Complement,
    Delayed,
    Empty,
    Epsilon,
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
from sgc_ir.automata.parts import parts_of
from sgc_ir.automata.recorded import Recorded
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
        found = known.get(node.id)
        if found is not None:
            return found
        stack = [node]
        while stack:
            top = stack[-1]
            if top.id in known:
                stack.pop()
                continue
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
        kind = type(node)
        if kind is Union or kind is Intersection:
            parts.sort()  # they stand in the order of making
        read = _OWN.get(kind)
        own = b"" if read is None else read(node)
        if kind in _OF_AUTOMATON:
            own = self._seed + own
        data = b"".join((_NAMES[kind], *parts, own))
        return hashlib.blake2b(data, digest_size=_SIZE).digest()


def _of_set(chars: CharSet) -> bytes:
    known = _sets.get(chars)
    if known is None:
        data = b"".join(
            bytes((low, high)) + (b"\0" * _SIZE if rest is None else _of_set(rest))
            for low, high, rest in chars.edges
        )
        known = _sets[chars] = hashlib.blake2b(data, digest_size=_SIZE).digest()
    return known


# What is a node's own, by type. Of a type, everything before it has one length, or nothing is its
# own.
_OWN: dict[type[Node], Callable[[Any], bytes]] = {
    Span: lambda node: _of_set(node.chars),
    Literal: lambda node: node.data[node.offset :],
    Repeat: lambda node: f"{node.low},{node.high}".encode(),
    Lazy: lambda node: node.name.encode(),
    Recorded: lambda node: node.name.encode(),
    Reference: lambda node: node.rule.name.encode(),
    Delayed: lambda node: node.name.encode(),
    Complement: lambda node: b"" if node.rest is None else _of_set(node.rest),
}

_OF_AUTOMATON = frozenset((Lazy, Recorded, Reference))  # whose names mean something in one only
_KINDS = (Empty, Epsilon, Sequence, Union, Intersection, *_OWN)
_NAMES: dict[type[Node], bytes] = {kind: kind.__name__.encode() + b"\0" for kind in _KINDS}
