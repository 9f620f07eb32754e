"""Texts inside JSON strings: a regular expression over characters becomes one over spellings.

Every character has one spelling here, the one that `json.dumps(..., ensure_ascii=False)` writes. No
spelling begins another, so intersections and complements carry over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from sgc_ir.automata.nodes import Node
from sgc_ir.automata.pool import Pool
from sgc_ir.automata.utf8 import ALL_CHARS, Ranges, complement, intersect

_ESCAPED: Ranges = ((0x00, 0x1F), (0x22, 0x22), (0x5C, 0x5C))
_PLAIN: Ranges = complement(_ESCAPED)
_SHORT = {0x08: "b", 0x09: "t", 0x0A: "n", 0x0C: "f", 0x0D: "r", 0x22: '"', 0x5C: "\\"}


def spelled(text: str) -> str:
    """`text` as it stands between the quotes."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


class Spelling:
    """A view on a pool that writes characters as they stand inside a JSON string.

    Attributes:
        text: any string.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.empty = pool.empty
        self.epsilon = pool.epsilon
        self.char = self.one_of(ALL_CHARS)
        self.text = pool.repeat(self.char, 0, None)

    def string(self, text: str, tail: Node | None = None) -> Node:
        return self._pool.string(spelled(text), tail)

    def one_of(self, ranges: Ranges, tail: Node | None = None) -> Node:
        pool, tail = self._pool, tail or self.epsilon
        plain = intersect(ranges, _PLAIN)
        special = [
            code for low, high in intersect(ranges, _ESCAPED) for code in range(low, high + 1)
        ]
        parts = [pool.one_of(plain, tail)] if plain else []
        if special:
            parts.append(pool.literal(b"\\", self._escapes(special, tail)))
        return pool.union(parts)

    def _escapes(self, codes: list[int], tail: Node) -> Node:
        """What follows the backslash."""
        pool = self._pool
        short = sorted(ord(_SHORT[code]) for code in codes if code in _SHORT)
        parts = [pool.one_of(tuple((c, c) for c in short), tail)] if short else []
        for high in (0, 1):
            digits = sorted(
                ord(f"{code & 15:x}") for code in codes if code not in _SHORT and code >> 4 == high
            )
            if digits:
                last = pool.one_of(tuple((digit, digit) for digit in digits), tail)
                parts.append(pool.literal(f"u00{high}".encode(), last))
        return pool.union(parts)

    def complement(self, body: Node) -> Node:
        return self._pool.difference(self.text, body)

    def sequence(self, head: Node, tail: Node) -> Node:
        return self._pool.sequence(head, tail)

    def repeat(self, body: Node, low: int, high: int | None = None) -> Node:
        return self._pool.repeat(body, low, high)

    def optional(self, body: Node) -> Node:
        return self._pool.optional(body)

    def union(self, items: Iterable[Node]) -> Node:
        return self._pool.union(items)

    def intersection(self, items: Iterable[Node]) -> Node:
        kept = [item for item in items if item is not self.text]
        return self._pool.intersection(kept or [self.text])

    def delayed(self, name: str, nullable: bool, make: Callable[[], Node]) -> Node:
        return self._pool.delayed(f"json:{name}", nullable, make)


def free_character(pool: Pool) -> Node:
    """One character of a JSON string in any spelling that a reader accepts."""
    plain = pool.one_of(_PLAIN)
    hexadecimal = ((0x30, 0x39), (0x41, 0x46), (0x61, 0x66))
    three = pool.repeat(pool.one_of(hexadecimal), 3, 3)
    two = pool.repeat(pool.one_of(hexadecimal), 2, 2)
    low_half = pool.chain(pool.string("\\u"), _letters(pool, "dD"), _letters(pool, "cdefCDEF"), two)
    high_half = pool.chain(_letters(pool, "dD"), _letters(pool, "89abAB"), two, low_half)
    unit = pool.union(
        [
            pool.chain(_letters(pool, "0123456789abcefABCEF"), three),
            pool.chain(_letters(pool, "dD"), _letters(pool, "01234567"), two),
            high_half,
        ]
    )
    escape = pool.union([_letters(pool, '"\\/bfnrt'), pool.literal(b"u", unit)])
    return pool.union([plain, pool.literal(b"\\", escape)])


def _letters(pool: Pool, letters: str) -> Node:
    return pool.one_of(tuple((ord(c), ord(c)) for c in sorted(letters)))
