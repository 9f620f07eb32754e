"""What an assertion may ask about the text to its left, as small integers.

Every question that a pattern asks to the left (is this the beginning, did a word end, does the text
so far end with `ing`) is a sequence of character sets whose last one has just been matched. All of
them are followed at once, a bit each (the shift-and method of Baeza-Yates and Gonnet 1992), so a
left context is one integer and a character moves it on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache

from sgc_ir.automata.regex_tree import Ahead, Begin, Behind, Border, Choice, Concat, Piece, Times
from sgc_ir.automata.utf8 import ALL_CHARS, Ranges, complement, intersect

BEGINNING = 0  # the context in which nothing stands to the left
_BEGUN = 1  # bit 0: something does
_NEWLINE: Ranges = ((10, 10),)


class Contexts:
    """The left contexts of one pattern.

    Bit 0 says that the text has begun, the next `width` bits are the questions' sets, and those
    above them belong to loops: a loop's bit is set while its iteration has matched nothing yet.

    Attributes:
        short: whether a context is decided by the last character alone.
    """

    def __init__(self, piece: Piece) -> None:
        self._questions: dict[tuple[Ranges, ...], int] = {}  # to the bit of the last set
        self._first = 0
        self._width = 0
        sets: list[Ranges] = []
        for question in dict.fromkeys(_questions(piece)):
            self._first |= 2 << self._width
            self._width += len(question)
            self._questions[question] = 1 << self._width
            sets += question
        self.short = all(len(question) == 1 for question in self._questions)
        self._mask = (1 << self._width + 1) - 1
        self._atoms = [(part, self._bits(sets, member)) for part, member in _partition(tuple(sets))]
        loops = _repetitions(piece) if piece.asserts else ()
        self._loops = {id(loop): i for i, loop in enumerate(loops, self._width + 1)}
        self._starts, self._owners = self._index()

    @staticmethod
    def _bits(sets: list[Ranges], member: frozenset[Ranges]) -> int:
        return sum(2 << i for i, ranges in enumerate(sets) if ranges in member)

    def _index(self) -> tuple[list[int], list[int]]:
        pairs = sorted((low, i) for i, (part, _) in enumerate(self._atoms) for low, _ in part)
        return [low for low, _ in pairs], [i for _, i in pairs]

    def loop_bit(self, piece: Times) -> int:
        """The bit of a repetition of the pattern."""
        return 1 << self._loops[id(piece)]

    def _moved(self, context: int, bits: int) -> int:
        return ((context << 1) & self._mask | self._first) & bits | _BEGUN

    def after(self, context: int, code: int) -> int:
        """The context behind the character `code`, which is no surrogate."""
        owner = self._owners[bisect_right(self._starts, code) - 1]
        return self._moved(context, self._atoms[owner][1])

    def split(self, context: int, ranges: Ranges) -> list[tuple[Ranges, int]]:
        """`ranges` in parts, each with the context behind a character of it."""
        parts = ((intersect_cached(ranges, atom), bits) for atom, bits in self._atoms)
        return [(part, self._moved(context, bits)) for part, bits in parts if part]

    def ends_with(self, context: int, question: tuple[Ranges, ...]) -> bool:
        """Whether the text so far ends with `question`, which was one of the pattern's."""
        return not question or bool(context & self._questions[question])

    def follows(self, context: int, ranges: Ranges) -> bool:
        """Whether a character of `ranges`, a question of one set, stands to the left."""
        return self.ends_with(context, (ranges,))

    @staticmethod
    def at_beginning(context: int) -> bool:
        return not context & _BEGUN


def _questions(piece: Piece) -> Iterator[tuple[Ranges, ...]]:
    """Every question that `piece` asks to the left."""
    if not piece.looks_left:
        return
    if isinstance(piece, Begin) and piece.lines:
        yield (_NEWLINE,)
    elif isinstance(piece, Border):
        yield (piece.word,)
    elif isinstance(piece, Behind):
        yield from (choice for choice in piece.choices if choice)
    elif isinstance(piece, Concat | Choice):
        for part in piece.parts:
            yield from _questions(part)
    elif isinstance(piece, Times | Ahead):
        yield from _questions(piece.body)


def _repetitions(piece: Piece) -> Iterator[Times]:
    """The repetitions of a pattern with assertions."""
    if isinstance(piece, Concat | Choice):
        for part in piece.parts:
            yield from _repetitions(part)
    elif isinstance(piece, Times | Ahead):
        if isinstance(piece, Times):
            yield piece
        yield from _repetitions(piece.body)


@lru_cache(maxsize=64)
def _partition(sets: tuple[Ranges, ...]) -> tuple[tuple[Ranges, frozenset[Ranges]], ...]:
    """All characters, cut so that each part is inside or outside each set; with the sets it is
    inside of."""
    parts: list[tuple[Ranges, frozenset[Ranges]]] = [(ALL_CHARS, frozenset())]
    for chosen in dict.fromkeys(sets):
        outside = complement(chosen)
        cut = [(intersect(part, chosen), member | {chosen}) for part, member in parts]
        cut += [(intersect(part, outside), member) for part, member in parts]
        parts = [(part, member) for part, member in cut if part]
    return tuple(parts)


@lru_cache(maxsize=1024)
def intersect_cached(first: Ranges, second: Ranges) -> Ranges:
    """`intersect`, remembered: word characters are hundreds of ranges."""
    return intersect(first, second)
