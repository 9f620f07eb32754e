"""Expressions for JSON strings and names, from behind the first quote to the last one."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator
from functools import lru_cache

from sgc_ir.automata.limits import DEFAULT_LIMITS
from sgc_ir.automata.nodes import Epsilon, Node, Repeat, Span
from sgc_ir.automata.pool import Pool
from sgc_ir.automata.regex import piece_expression
from sgc_ir.automata.regex_parse import parse
from sgc_ir.automata.regex_read import read
from sgc_ir.automata.regex_tree import Piece
from sgc_ir.automata.schema.cells import Strings
from sgc_ir.automata.schema.formats import FORMATS
from sgc_ir.automata.schema.patterns import search_piece
from sgc_ir.automata.schema.searching import Searching
from sgc_ir.automata.schema.spelling import Spelling, free_character, spelled
from sgc_ir.automata.schema.words import all_but, words


class StringTexts:
    """Expressions of string cells in one pool."""

    def __init__(self, pool: Pool, name: str) -> None:
        self._pool = pool
        self._name = name
        self.spelling = Spelling(pool)
        self.search = Searching(pool, name)
        self._free = free_character(pool)
        self._quote = pool.literal(b'"', pool.epsilon)
        pool.named[self._free.id] = b"free character of a JSON string"
        pool.named[self.spelling.char.id] = b"spelled character of a JSON string"
        self._known: dict[tuple[Strings, bool], Node] = {}
        self._patterns: dict[tuple[str, bool], Node] = {}
        self._formats: dict[str, Node] = {}

    def content(self, cell: Strings, free: bool = True) -> Node:
        """What follows the first quote, the last one included; with `free`, in every spelling
        where only lengths are asked for."""
        key = (cell, free)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._content(cell, free)
        return found

    def _content(self, cell: Strings, free: bool) -> Node:
        pool = self._pool
        if cell.values is not None:
            return self._words([spelled(value) for value in self.values(cell)])
        if free and not (cell.patterns or cell.formats or cell.excluded):
            return pool.sequence(pool.repeat(self._free, cell.low, cell.high), self._quote)
        parts = [self._pattern(*pattern) for pattern in sorted(cell.patterns)]
        parts += [self._format(name) for name in sorted(cell.formats)]
        text = pool.sequence(self._bounded(parts, cell.low, cell.high), self._quote)
        return self.without(text, cell.excluded)

    def without(self, text: Node, excluded: Collection[str]) -> Node:
        """`text`, which ends with the quote, but for these strings."""
        kept = sorted(spelled(value) for value in excluded if _encodable(value))
        if not kept:
            return text
        if text is not self._pool.sequence(self.spelling.text, self._quote):
            return self._pool.difference(text, self._words(kept))
        data, name = self._named(kept)
        return all_but(self._pool, name, text, data)

    def nonempty(self, cell: Strings) -> bool:
        """Whether some string is in the cell."""
        if cell.values is not None:
            return bool(self.values(cell))
        if not (cell.patterns or cell.formats or cell.excluded):
            return cell.high is None or cell.low <= cell.high
        return self._pool.is_alive(self.content(cell))

    def is_alive(self, node: Node) -> bool:
        return self._pool.is_alive(node)

    def union(self, nodes: list[Node]) -> Node:
        return self._pool.union(nodes)

    def meet(self, nodes: list[Node]) -> Node:
        return self._pool.intersection(nodes)

    def having(self, names: Node, pattern: str, met: bool) -> Node:
        """`names` in which `pattern` is found, or is not."""
        other = self._pool.sequence(self._pattern(pattern, met), self._quote)
        return self._pool.intersection([names, other])

    def divided(
        self, names: Node, pattern: str, met: frozenset[str]
    ) -> Iterator[tuple[Node, frozenset[str]]]:
        """`names` in which `pattern` is found, and those in which it is not; empty ones left out.
        With both readings of a pattern some names are in neither."""
        for sign, kept in ((True, met | {pattern}), (False, met)):
            part = self.having(names, pattern, sign)
            if self._pool.is_alive(part):
                yield part, kept

    def _words(self, texts: list[str]) -> Node:
        data, name = self._named(texts)
        return words(self._pool, name, data)

    def _named(self, texts: list[str]) -> tuple[list[bytes], str]:
        """The bytes of `texts`, each with the quote, so that none begins another; their name."""
        data = [f'{text}"'.encode() for text in texts]
        digest = hashlib.blake2b(b"\0".join(data), digest_size=12).hexdigest()
        return data, f"{self._name}.w{digest}"

    def values(self, cell: Strings) -> list[str]:
        """The values of a cell that lists them, those that its patterns and formats allow and that
        UTF-8 can hold."""
        return [value for value in cell.values or () if self._allows(cell, value)]

    def _allows(self, cell: Strings, value: str) -> bool:
        if not _encodable(value):
            return False
        for pattern, met in cell.patterns:
            if self.search.found(pattern, value) != met:
                return False
        for name in cell.formats:
            pattern, longest = FORMATS[name]
            if not re.fullmatch(pattern, value, re.ASCII) or len(value) > (longest or len(value)):
                return False
        return True

    def _pattern(self, pattern: str, met: bool) -> Node:
        key = (pattern, met)
        found = self._patterns.get(key)
        if found is None:
            piece = search_piece(pattern, met, self._pool)
            name = f"{self._name}.p{met:d}{pattern}"
            found = piece_expression(self.spelling, piece, name)
            if not met:
                found = self.spelling.complement(found)
            self._patterns[key] = found
        return found

    def _format(self, name: str) -> Node:
        found = self._formats.get(name)
        if found is None:
            longest = FORMATS[name][1]
            found = piece_expression(self.spelling, _piece(name), f"{self._name}.f{name}")
            if longest is not None:
                most = self._pool.repeat(self.spelling.char, 0, longest)
                found = self._pool.intersection([found, most])
            self._formats[name] = found
        return found

    def _bounded(self, parts: list[Node], low: int, high: int | None) -> Node:
        """The intersection of `parts` with strings of low to high characters."""
        pool = self._pool
        if not low and high is None:
            return self.spelling.intersection(parts or [self.spelling.text])
        if not parts:
            return pool.repeat(self.spelling.char, low, high)
        if len(parts) == 1 and isinstance(parts[0], Repeat) and _is_character(parts[0].body):
            run = parts[0]
            low = max(low, run.low)
            if run.high is not None:
                high = run.high if high is None else min(high, run.high)
            if high is not None and high < low:
                return pool.empty
            return pool.repeat(run.body, low, high)
        return self.spelling.intersection([*parts, pool.repeat(self.spelling.char, low, high)])


@lru_cache(len(FORMATS))
def _piece(name: str) -> Piece:
    """The regular expression of a format, read once."""
    tree, flags = parse(FORMATS[name][0], DEFAULT_LIMITS)
    return read(tree, flags & ~re.UNICODE | re.ASCII)


def _encodable(value: str) -> bool:
    return not any(0xD800 <= ord(char) <= 0xDFFF for char in value)


def _is_character(node: Node) -> bool:
    """Whether `node` is one plain character of a set (which is one character of the string)."""
    return isinstance(node, Span) and isinstance(node.tail, Epsilon)
