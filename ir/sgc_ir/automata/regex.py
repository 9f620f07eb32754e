"""Regular expressions in Python's dialect: a text is legal where `re.fullmatch(pattern, text)` is.

A pattern is turned into an expression from its end to its beginning: every part is given what may
follow it and returns what may begin with it. So a lookahead is an intersection with what follows
it, and a negative one an intersection with a complement. Where an assertion asks for what stands
to its left, what follows is a table over left contexts (`regex_context`). A repetition without
assertions stays one node with its counts; one with them is made iteration by iteration as the
automaton reaches it. Nothing is unrolled.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import lru_cache

from sgc_ir.automata.automaton import Automaton
from sgc_ir.automata.builder import Builder
from sgc_ir.automata.digest import language_digest
from sgc_ir.automata.limits import DEFAULT_LIMITS, Limits
from sgc_ir.automata.nodes import Node
from sgc_ir.automata.pool import Pool
from sgc_ir.automata.regex_context import BEGINNING, Contexts
from sgc_ir.automata.regex_parse import parse
from sgc_ir.automata.regex_read import read
from sgc_ir.automata.regex_tree import (
    Ahead,
    Begin,
    Behind,
    Border,
    Chars,
    Choice,
    Concat,
    End,
    Piece,
    Text,
    Times,
)
from sgc_ir.automata.utf8 import complement
from sgc_ir.errors import ConstraintError

_outside = lru_cache(maxsize=16)(complement)
_FRESH = -1  # the context at the beginning of an iteration that must match something


def regex_automaton(pattern: str, limits: Limits = DEFAULT_LIMITS) -> Automaton:
    """The automaton of the texts that `re.fullmatch(pattern, text)` matches.

    Raises:
        ConstraintError: `pattern` is malformed, uses a construct that is not supported (named in
            the message), matches no text that UTF-8 can hold, or passes a limit.
    """
    digest = language_digest("regex", pattern)
    return Automaton(lambda pool: regex_expression(pool, pattern), digest, limits)


def regex_expression(pool: Pool, pattern: str) -> Node:
    """The texts that `re.fullmatch(pattern, text)` matches, as an expression of `pool`.

    Raises:
        ConstraintError: as `regex_automaton`, but for patterns that match no text.
    """
    try:
        pool.tick(len(pattern))
        tree, flags = parse(pattern, pool.limits)
        name = language_digest("regex", pattern).hex()
        return piece_expression(pool, read(tree, flags, pool.tick), name)
    except RecursionError:
        raise ConstraintError("the regex nests too many groups or anchors; flatten it") from None


def piece_expression(builder: Builder, piece: Piece, name: str) -> Node:
    """The texts that `piece` matches as a whole.

    Args:
        builder: the pool, or a view on it that spells characters in its own way.
        name: says which piece it is and how its characters are spelled, in every process.
    """
    converter = Converter(builder, Contexts(piece), name)
    return at(converter.convert(piece, builder.epsilon), BEGINNING)


class Table:
    """What may follow in each left context, made when it is asked for."""

    __slots__ = ("_known", "_make")

    def __init__(self, make: Callable[[int], Node]) -> None:
        self._make = make
        self._known: dict[int, Node] = {}

    def at(self, context: int) -> Node:
        node = self._known.get(context)
        if node is None:
            node = self._known[context] = self._make(context)
        return node


Rest = Node | Table  # what may follow: one expression, or one for each left context


def at(rest: Rest, context: int) -> Node:
    """`rest` in one left context."""
    return rest if isinstance(rest, Node) else rest.at(context)


def combined(combine: Callable[[list[Node]], Node], rests: list[Rest]) -> Rest:
    """`combine` of `rests`, in each left context where they depend on it."""
    if all(isinstance(rest, Node) for rest in rests):
        return combine([at(rest, BEGINNING) for rest in rests])
    return Table(lambda context: combine([at(rest, context) for rest in rests]))


class Converter:
    """Makes the expression of one pattern, or of one iteration of a loop in it.

    Args:
        name: says which one, in every process.
    """

    def __init__(self, pool: Builder, contexts: Contexts, name: str) -> None:
        self._pool = pool
        self._contexts = contexts
        self._name = name
        self._loops = 0

    def convert(self, piece: Piece, rest: Rest) -> Rest:
        """`piece`, then `rest`."""
        if isinstance(piece, Text):
            return self._text(piece, rest)
        if isinstance(piece, Chars):
            return self._chars(piece, rest)
        if isinstance(piece, Concat):
            short = self._contexts.short  # else a repetition may need a bit of the context
            for part in reversed(_counted_together(piece.parts) if short else piece.parts):
                rest = self.convert(part, rest)
            return rest
        if isinstance(piece, Choice):
            return combined(self._pool.union, [self.convert(part, rest) for part in piece.parts])
        if isinstance(piece, Times):
            return self._times(piece, rest)
        if isinstance(piece, Ahead):
            return self._ahead(piece, rest)
        if isinstance(piece, End):
            return combined(self._pool.intersection, [self._ending(piece), rest])
        return Table(lambda context: self._left(piece, context, rest))

    # Characters

    def _text(self, piece: Text, rest: Rest) -> Rest:
        if isinstance(rest, Node):
            return self._pool.string(piece.text, rest)
        if any(0xD800 <= ord(c) <= 0xDFFF for c in piece.text):
            return self._pool.empty

        def make(context: int) -> Node:
            for char in piece.text:
                context = self._contexts.after(context, ord(char))
            return self._pool.string(piece.text, rest.at(context))

        return make(_FRESH) if self._contexts.short else Table(make)

    def _chars(self, piece: Chars, rest: Rest) -> Rest:
        if isinstance(rest, Node):
            return self._pool.one_of(piece.ranges, rest)

        def make(context: int) -> Node:
            parts = self._contexts.split(context, piece.ranges)
            following = [(ranges, rest.at(after)) for ranges, after in parts]
            if len({node.id for _, node in following}) == 1:
                return self._pool.one_of(piece.ranges, following[0][1])
            return self._pool.union([self._pool.one_of(ranges, node) for ranges, node in following])

        return make(_FRESH) if self._contexts.short else Table(make)

    # Repetitions

    def _times(self, piece: Times, rest: Rest) -> Rest:
        if piece.asserts:
            return self._loop(piece, rest)
        if isinstance(rest, Node):
            return self._counted(piece.body, piece.low, piece.high, rest)
        if self._contexts.short and piece.high != 0:
            return self._counted_before_table(piece, rest)
        return self._loop(piece, rest)

    def _counted(self, body: Piece, low: int, high: int | None, rest: Node) -> Node:
        pool = self._pool
        if (low, high) == (0, 1):
            return pool.union([at(self.convert(body, rest), BEGINNING), rest])
        one = at(self.convert(body, pool.epsilon), BEGINNING)
        return pool.sequence(pool.repeat(one, low, high), rest)

    def _counted_before_table(self, piece: Times, rest: Table) -> Rest:
        """The last iteration that matches something decides the context; the others are counted."""
        body, low, high = piece.body, 0 if piece.body.nullable else piece.low, piece.high
        nothing = self._pool.empty
        last = self.convert(body, Table(lambda c: nothing if c == _FRESH else rest.at(c)))
        some = self._counted(
            body, max(low - 1, 0), None if high is None else high - 1, at(last, _FRESH)
        )
        if low:
            return some
        return combined(self._pool.union, [rest, some])

    def _loop(self, piece: Times, rest: Rest) -> Rest:
        self._loops += 1
        name = f"{self._name}.{self._loops}"
        loop = _Loop(self._pool, self._contexts, name, piece, rest)
        if isinstance(rest, Node) and not piece.looks_left:
            return loop.begin(BEGINNING)
        return Table(loop.begin)

    # Assertions

    def _ahead(self, piece: Ahead, rest: Rest) -> Rest:
        pool = self._pool
        legal = self.convert(piece.body, pool.text)
        if piece.negative:
            legal = combined(lambda nodes: pool.complement(nodes[0]), [legal])
        return combined(pool.intersection, [legal, rest])

    def _ending(self, piece: End) -> Node:
        pool = self._pool
        if piece.kind == "text":
            return pool.epsilon
        return pool.optional(pool.string("\n", pool.text if piece.kind == "lines" else None))

    def _left(self, piece: Piece, context: int, rest: Rest) -> Node:
        """`rest` where `piece`, an assertion about what stands to its left, holds."""
        if isinstance(piece, Border):
            return self._border(piece, context, at(rest, context))
        return at(rest, context) if holds(self._contexts, piece, context) else self._pool.empty

    def _border(self, piece: Border, context: int, rest: Node) -> Node:
        pool = self._pool
        after_word = self._contexts.follows(context, piece.word)
        if after_word != piece.negative:  # what follows is no word character
            legal = pool.one_of(_outside(piece.word), pool.text)
            if holds(self._contexts, piece, context):
                legal = pool.optional(legal)
        else:
            legal = pool.one_of(piece.word, pool.text)
        return pool.intersection([legal, rest])


def _counted_together(parts: Iterable[Piece]) -> list[Piece]:
    """`parts`, with neighbours that repeat the same thing as one repetition."""
    out: list[Piece] = []
    for part in parts:
        last = out[-1] if out else None
        if (
            isinstance(part, Times)
            and isinstance(last, Times)
            and not part.asserts
            and part.high != 0
            and part.body == last.body
        ):
            high = None if part.high is None or last.high is None else part.high + last.high
            out[-1] = Times(part.body, part.low + last.low, high)
        else:
            out.append(part)
    return out


class _Loop:
    """A repetition with assertions in it: a node for each (iterations still owed, iterations still
    allowed, left context).

    An iteration that matches nothing changes nothing but that its assertions held, and they hold
    for every further one at the same place: it pays for all that are owed. Where none is owed, it
    is left out.
    """

    def __init__(
        self, pool: Builder, contexts: Contexts, name: str, piece: Times, rest: Rest
    ) -> None:
        self._pool = pool
        self._contexts = contexts
        self._name = name
        self._piece = piece
        self._rest = rest
        self._bit = contexts.loop_bit(piece)
        self._bodies: dict[tuple[int, int | None], Rest] = {}

    def begin(self, context: int) -> Node:
        """What may follow before the first iteration."""
        return self._at(self._piece.low, self._piece.high, context)

    def _at(self, owed: int, left: int | None, context: int) -> Node:
        if left == 0:
            return at(self._rest, context)
        ending = owed == 0 or holds(self._contexts, self._piece.body, context)
        return self._pool.delayed(
            f"{self._name}[{owed},{left},{context}]",
            ending and at(self._rest, context).nullable,
            lambda: self._make(owed, left, context),
        )

    def _make(self, owed: int, left: int | None, context: int) -> Node:
        body = self._bodies.get((owed, left))
        if body is None:
            converter = Converter(self._pool, self._contexts, f"{self._name}[{owed},{left}]")
            body = converter.convert(
                self._piece.body, Table(lambda after: self._next(owed, left, after))
            )
            self._bodies[owed, left] = body
        once = at(body, context | self._bit)
        return once if owed else self._pool.union([at(self._rest, context), once])

    def _next(self, owed: int, left: int | None, context: int) -> Node:
        """What may follow an iteration."""
        fewer = None if left is None else left - 1
        if not context & self._bit:
            return self._at(max(owed - 1, 0), fewer, context)
        if owed == 0:
            return self._pool.empty
        return self._at(0, fewer, context & ~self._bit)


def holds(contexts: Contexts, piece: Piece, context: int) -> bool:
    """Whether `piece` matches the empty text at the end of a text, behind `context`."""
    if isinstance(piece, Concat):
        return all(holds(contexts, part, context) for part in piece.parts)
    if isinstance(piece, Choice):
        return any(holds(contexts, part, context) for part in piece.parts)
    if isinstance(piece, Times):
        return piece.low == 0 or holds(contexts, piece.body, context)
    if isinstance(piece, Ahead):
        return holds(contexts, piece.body, context) != piece.negative
    if isinstance(piece, Behind):
        found = any(contexts.ends_with(context, choice) for choice in piece.choices)
        return found != piece.negative
    if isinstance(piece, Begin):
        after_newline = piece.lines and contexts.follows(context, ((10, 10),))
        return contexts.at_beginning(context) or after_newline
    if isinstance(piece, Border):
        if contexts.follows(context, piece.word):
            return not piece.negative
        # Until 3.13 neither \b nor \B matches in a text without characters.
        inside = sys.version_info >= (3, 14) or not contexts.at_beginning(context)
        return piece.negative and inside
    return isinstance(piece, End)
