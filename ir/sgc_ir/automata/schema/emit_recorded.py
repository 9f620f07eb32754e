"""Arrays whose items differ and are open: the texts of the items so far are remembered.

Each value of an item has one text here (`single`), so that different texts are different values. A
state is the number of items, the set of their texts, and how far the next one is written.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, insort
from collections.abc import Callable
from dataclasses import dataclass

from sgc_ir.automata.alike import derivative
from sgc_ir.automata.nodes import Node, Row
from sgc_ir.automata.pool import Pool
from sgc_ir.automata.recorded import Doubtful
from sgc_ir.automata.schema.distinct import MOST_ITEMS
from sgc_ir.automata.schema.single import Amounts
from sgc_ir.automata.schema.words import branches

Separator = Callable[[bool], bytes]  # what stands before an item; whether one came before
_KEY = 16  # bytes of a digest


@dataclass(frozen=True, slots=True)
class Past:
    """The items so far.

    Attributes:
        index: how many there are.
        texts: theirs, sorted.
        key: a digest of all this.
    """

    index: int
    texts: tuple[bytes, ...]
    key: bytes

    def and_then(self, text: bytes) -> Past:
        texts = list(self.texts)
        insort(texts, text)
        found = hashlib.blake2b(digest_size=_KEY)
        for one in texts:
            found.update(len(one).to_bytes(8, "little") + one)
        return Past(self.index + 1, tuple(texts), found.digest())


NO_ITEMS = Past(0, (), bytes(_KEY))


@dataclass(frozen=True, slots=True)
class Parts:
    """What an array is made of.

    Attributes:
        item: the texts of item i; the empty expression behind the last one.
        before: the separator.
        close: the end of the array; whether an item came before.
        rest: the array behind i items, without a memory of them.
        low: the least number of items.
    """

    item: Callable[[int], Node]
    before: Separator
    close: Callable[[bool], Node]
    rest: Callable[[int], Node]
    low: int


class RecordedWriter:
    """Writes the arrays of one cell, from behind the opening bracket."""

    def __init__(self, pool: Pool, amounts: Amounts, name: str, parts: Parts) -> None:
        self.pool = pool
        self.parts = parts
        self.amounts = amounts
        self._name = name

    def state(self, past: Past) -> Node:
        """Behind some items."""
        name = f"{self._name}.{past.index}.{past.key.hex()}"
        return self.pool.recorded(name, _Between(self, past))

    def inside(self, past: Past, rest: Node, begun: _Begun) -> Node:
        """In an item that has `begun`, of which `rest` may follow; empty where the items so far
        leave nothing of it."""
        if not self._leaves(past, rest, begun):
            return self.pool.empty
        name = f"{self._name}.{past.index}.{past.key.hex()}.{begun.key.hex()}"
        return self.pool.recorded(name, _Inside(self, past, rest, begun))

    def _leaves(self, past: Past, rest: Node, begun: _Begun) -> bool:
        used = begun.high - begun.low
        if not used or self.amounts.above(rest, used):
            return self.pool.is_alive(rest)
        others = [
            self.pool.literal(text[begun.length :], self.pool.epsilon)
            for text in past.texts[begun.low : begun.high]
        ]
        return self.pool.is_alive(self.pool.difference(rest, self.pool.union(others)))

    def item(self, index: int) -> Node:
        """The texts of an item; empty where there are no more, or no more are remembered."""
        return self.parts.item(index) if index < MOST_ITEMS else self.pool.empty

    def is_free(self, past: Past) -> bool:
        """Whether another item may follow the one behind `past`, whatever that is, or none may."""
        following = past.index + 1
        item = self.parts.item(following)
        if item is self.pool.empty:
            return True
        return following < MOST_ITEMS and self.amounts.above(item, following)


@dataclass(frozen=True, slots=True)
class _Begun:
    """What is written of an item.

    Attributes:
        before, byte: what was written, the last byte apart; `before` is None at the start.
        length: how many bytes.
        low, high: the span of the texts so far that begin with it.
        key: a digest of it.
    """

    before: _Begun | None
    byte: int
    length: int
    low: int
    high: int
    key: bytes

    def text(self) -> bytes:
        data, part = bytearray(), self
        while part.before is not None:
            data.append(part.byte)
            part = part.before
        return bytes(data[::-1])

    def and_then(self, byte: int, past: Past) -> _Begun:
        low, high, at = self.low, self.high, self.length
        if low < high:
            low = bisect_left(past.texts, byte, low, high, key=lambda t: _byte(t, at))
            high = bisect_left(past.texts, byte + 1, low, high, key=lambda t: _byte(t, at))
        data = self.key + bytes([byte])
        key = hashlib.blake2b(data, digest_size=_KEY).digest()
        return _Begun(self, byte, at + 1, low, high, key)


def _byte(text: bytes, at: int) -> int:
    return text[at] if at < len(text) else -1


class _Between:
    """Behind the items of `past`: the end, or the next item."""

    __slots__ = ("_past", "_row", "_writer")
    ends = True

    def __init__(self, writer: RecordedWriter, past: Past) -> None:
        self._writer, self._past = writer, past
        self._row: Row | None = None

    @property
    def separator(self) -> bytes:
        return self._writer.parts.before(True)

    def doubtful(self) -> Doubtful:
        return None

    def row(self) -> Row:
        if self._row is None:
            parts, past = self._writer.parts, self._past
            begun = _Begun(None, 0, 0, 0, len(past.texts), b"")
            item = self._writer.inside(past, self._writer.item(past.index), begun)
            found = [self._writer.pool.literal(parts.before(past.index > 0), item)]
            if past.index >= parts.low:
                found.append(parts.close(past.index > 0))
            self._row = self._writer.pool.union(found).row(self._writer.pool)
        return self._row

    def after(self, byte: int) -> Node:
        return derivative(self.row(), byte) or self._writer.pool.empty

    def shape(self) -> Node:
        return self._writer.parts.rest(self._past.index)

    def has_more(self, number: int) -> bool:
        item = self._writer.item(self._past.index)
        return self._writer.amounts.above(item, number + self._past.index)


class _Inside:
    """In the item behind those of `past`."""

    __slots__ = ("_begun", "_past", "_rest", "_writer")

    def __init__(self, writer: RecordedWriter, past: Past, rest: Node, begun: _Begun) -> None:
        self._writer, self._past, self._rest, self._begun = writer, past, rest, begun

    @property
    def ends(self) -> bool:
        return self._rest.nullable

    @property
    def separator(self) -> bytes:
        return self._writer.parts.before(True)

    def doubtful(self) -> Doubtful:
        begun, texts = self._begun, self._past.texts
        if not self._writer.is_free(self._past):
            return None
        low = begun.low
        if low == begun.high:
            return frozenset()
        found = set[int]()
        if len(texts[low]) == begun.length:  # the same text must not end here
            low += 1
            if self._rest.nullable:
                ways = self._writer.parts.rest(self._past.index + 1).row(self._writer.pool)
                found.update(byte for first, last, _ in ways for byte in range(first, last + 1))
        ahead = branches(texts, low, begun.high, begun.length)
        return frozenset(found.union(byte for byte, _, _ in ahead))

    def row(self) -> Row:
        pool = self._writer.pool
        inner = tuple(
            (byte, byte, self._further(node, byte))
            for low, high, node in self._rest.row(pool)
            for byte in range(low, high + 1)
        )
        rows = [tuple(entry for entry in inner if entry[2] is not pool.empty)]
        behind = self._behind()
        if behind is not None:
            rows.append(behind.row(pool))
        return pool.union_rows(rows)

    def after(self, byte: int) -> Node:
        pool = self._writer.pool
        node = derivative(self._rest.row(pool), byte)
        found = [] if node is None else [self._further(node, byte)]
        behind = self._behind()
        if behind is not None:
            found.append(derivative(behind.row(pool), byte) or pool.empty)
        return pool.union(found)

    def _further(self, node: Node, byte: int) -> Node:
        return self._writer.inside(self._past, node, self._begun.and_then(byte, self._past))

    def _behind(self) -> Node | None:
        """Behind this item, if it may end here."""
        begun, past = self._begun, self._past
        if not self._rest.nullable:
            return None
        if begun.low < begun.high and len(past.texts[begun.low]) == begun.length:
            return None
        return self._writer.state(past.and_then(begun.text()))

    def shape(self) -> Node:
        writer = self._writer
        return writer.pool.sequence(self._rest, writer.parts.rest(self._past.index + 1))

    def has_more(self, number: int) -> bool:
        return self._writer.amounts.above(self._rest, number + self._past.index)
