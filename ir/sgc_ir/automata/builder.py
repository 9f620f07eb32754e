"""What a regular expression is built with: a pool, or a view on one that spells its characters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from sgc_ir.automata.nodes import Node
from sgc_ir.automata.utf8 import Ranges


class Builder(Protocol):
    """The part of `Pool` that the converter of regular expressions uses."""

    @property
    def empty(self) -> Node: ...

    @property
    def epsilon(self) -> Node: ...

    @property
    def text(self) -> Node: ...

    def string(self, text: str, tail: Node | None = None) -> Node: ...

    def one_of(self, ranges: Ranges, tail: Node | None = None) -> Node: ...

    def sequence(self, head: Node, tail: Node) -> Node: ...

    def repeat(self, body: Node, low: int, high: int | None = None) -> Node: ...

    def optional(self, body: Node) -> Node: ...

    def union(self, items: Iterable[Node]) -> Node: ...

    def intersection(self, items: Iterable[Node]) -> Node: ...

    def complement(self, body: Node) -> Node: ...

    def delayed(self, name: str, nullable: bool, make: Callable[[], Node]) -> Node: ...
