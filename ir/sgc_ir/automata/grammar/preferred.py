"""What a terminal matches in lark's lexers: the texts that Python's `re.match` takes whole.

Python tries alternatives in order and keeps the first that succeeds, so `a|ab` never matches `ab`,
and `".*?"` ends at the first quote. The lexer `dynamic_complete` tries a terminal on every
beginning of what its longest match gave. The texts so found are those that are their own match,
`re.match(pattern, text).end() == len(text)`: whatever follows them in the whole text can only add
candidates that are longer, never a shorter one that is preferred.

With the continuation `k`, where `best` are the texts that are their own match and `all` those that
match somehow:

    best((r|s) k) = best(r k) | (best(s k) - all(r k) .*)

and repetitions are choices between going on and stopping, in the order of their greed.
"""

from __future__ import annotations

from functools import lru_cache

from sgc_ir.automata.digest import language_digest
from sgc_ir.automata.grammar.confined import check_confined
from sgc_ir.automata.grammar.decided import is_decided
from sgc_ir.automata.grammar.filled import filled
from sgc_ir.automata.limits import Limits
from sgc_ir.automata.nodes import Delayed, Node
from sgc_ir.automata.pool import Pool
from sgc_ir.automata.regex import Converter, Rest, Table, at, combined, piece_expression
from sgc_ir.automata.regex_context import BEGINNING, Contexts
from sgc_ir.automata.regex_parse import parse
from sgc_ir.automata.regex_read import read
from sgc_ir.automata.regex_tree import Choice, Concat, Piece, Times
from sgc_ir.errors import ConstraintError

# Lark's own string terminals, and what they match written so that it needs no exclusion.
_KNOWN = {
    f"{quote}.*?(?<!\\\\)(\\\\\\\\)*?{quote}": rf"{quote}(?:[^{quote}\\\n]|\\.)*{quote}"
    for quote in "\"'"
}


def terminal_pattern(pool: Pool, regex: str) -> Node:
    """The texts that `re.match(regex, text)` matches as a whole.

    Raises:
        ConstraintError: as `regex_expression`; the empty text matches ("malformed"), an assertion
            looks outside the match or a part that may be empty is repeated ("unsupported").
    """
    regex = _KNOWN.get(regex, regex)
    try:
        piece = _read(regex, pool.limits)
        if is_decided(piece) or _all_preferred(regex, pool.limits):
            return piece_expression(pool, piece, _name(regex))
        return _best(pool, piece, _name(regex))[0]
    except RecursionError:
        raise ConstraintError("the regex nests too many groups; flatten it") from None


def _name(regex: str) -> str:
    return language_digest("terminal", regex).hex()


@lru_cache(maxsize=256)
def _read(regex: str, limits: Limits) -> Piece:
    piece = read(*parse(regex, limits))
    if piece.nullable:
        raise ConstraintError(
            "it matches the empty text; make what it is used in optional instead", kind="malformed"
        )
    check_confined(piece)
    return piece


@lru_cache(maxsize=256)
def _all_preferred(regex: str, limits: Limits) -> bool:
    """Whether every text that matches is its own match."""
    pool = Pool(limits)
    best, every = _best(pool, _read(regex, limits), _name(regex))
    return not pool.is_alive(pool.difference(every, best))


def _best(pool: Pool, piece: Piece, name: str) -> tuple[Node, Node]:
    end = pool.epsilon
    best, every = _Preferring(pool, Contexts(piece), name).convert(piece, end, end)
    return at(best, BEGINNING), at(every, BEGINNING)


class _Preferring:
    """Makes, for a pattern and what follows it, the texts that are their own match and all that
    match.

    Args:
        name: says which pattern it is, in every process.
    """

    def __init__(self, pool: Pool, contexts: Contexts, name: str) -> None:
        self._pool = pool
        self._name = name
        self._plain = Converter(pool, contexts, name)
        self._loops = 0

    def convert(self, piece: Piece, best: Rest, every: Rest) -> tuple[Rest, Rest]:
        """`piece`, then what follows."""
        if isinstance(piece, Concat):
            for part in reversed(piece.parts):
                best, every = self.convert(part, best, every)
            return best, every
        if isinstance(piece, Choice):
            return self.first_of([self.convert(part, best, every) for part in piece.parts])
        if isinstance(piece, Times):
            return self._times(piece, best, every)
        made = self._plain.convert(piece, best)
        return made, made if best is every else self._plain.convert(piece, every)

    def first_of(self, ways: list[tuple[Rest, Rest]]) -> tuple[Rest, Rest]:
        """The first of `ways` that succeeds."""
        bests: list[Rest] = []
        seen: list[Rest] = []
        for best, every in ways:
            bests.append(combined(self._minus, [best, *seen]) if seen else best)
            seen.append(every)
        return combined(self._pool.union, bests), combined(self._pool.union, seen)

    def _minus(self, nodes: list[Node]) -> Node:
        """The first of `nodes` without what begins with a text of another."""
        pool = self._pool
        first, *others = nodes
        close = [other for other in others if touch(pool, first, other)]
        if not close:
            return first
        return pool.difference(first, pool.sequence(pool.union(close), pool.text))

    def _times(self, piece: Times, best: Rest, every: Rest) -> tuple[Rest, Rest]:
        if piece.high == 0:
            return best, every
        if (piece.low, piece.high) == (0, 1):
            ways = [self.convert(piece.body, best, every), (best, every)]
            return self.first_of(ways[::-1] if piece.lazy else ways)
        if piece.body.nullable:
            piece = Times(filled(piece.body), 0, piece.high, piece.lazy)
        if isinstance(best, Node) and isinstance(every, Node) and not piece.asserts:
            counted = self._counted(piece, best, every)
            if counted is not None:
                return counted
        self._loops += 1
        return _Loop(self, self._pool, f"{self._name}.{self._loops}", piece, best, every).start()

    def _counted(self, piece: Times, best: Node, every: Node) -> tuple[Node, Node] | None:
        """One node with a count, where nothing depends on the order of choices."""
        pool = self._pool
        end = pool.epsilon
        made, same = self.convert(piece.body, end, end)
        if made is not same or not _is_plain(piece.body):
            return None
        body = at(made, BEGINNING)
        if piece.low != piece.high and (piece.lazy or touch(pool, body, every)):
            return None
        loop = pool.repeat(body, piece.low, piece.high)
        return pool.sequence(loop, best), pool.sequence(loop, every)


def _is_plain(piece: Piece) -> bool:
    """Whether `piece` leaves no choice."""
    if isinstance(piece, Concat):
        return all(map(_is_plain, piece.parts))
    return not isinstance(piece, Choice | Times)


def _is_open(node: Node) -> bool:
    """Whether `node` begins with a loop, which may still be in the making."""
    stack = [node]
    while stack:
        top = stack.pop()
        if isinstance(top, Delayed):
            return True
        stack += top.needs() if top.looping else ()
    return False


def touch(pool: Pool, first: Node, second: Node) -> bool:
    """Whether a text of `second` may be the beginning of one of `first` (by its first byte)."""
    if second.nullable or _is_open(first) or _is_open(second):
        return True
    return any(
        low <= last and begin <= high
        for low, high, _ in first.row(pool)
        for begin, last, _ in second.row(pool)
    )


class _Loop:
    """A repetition: a pair of nodes for each (iterations so far, left context)."""

    def __init__(
        self, owner: _Preferring, pool: Pool, name: str, piece: Times, best: Rest, every: Rest
    ) -> None:
        self._owner = owner
        self._pool = pool
        self._name = name
        self._piece = piece
        self._rests = best, every
        self._deaf = isinstance(best, Node) and isinstance(every, Node) and not piece.looks_left
        self._bodies: dict[int, tuple[Rest, Rest]] = {}

    def start(self) -> tuple[Rest, Rest]:
        return self._behind(0, 0), self._behind(0, 1)

    def _behind(self, count: int, which: int) -> Rest:
        """What may follow `count` iterations: the best (0) or all (1)."""
        if self._deaf:
            return self._at(count, BEGINNING, which)
        return Table(lambda context: self._at(count, context, which))

    def _at(self, count: int, context: int, which: int) -> Node:
        piece = self._piece
        if piece.high is None:
            count = min(count, piece.low)
        elif count == piece.high:
            return at(self._rests[which], context)
        return self._pool.delayed(
            f"{self._name}[{count},{context},{which}]",
            count >= piece.low and at(self._rests[which], context).nullable,
            lambda: self._make(count, context, which),
        )

    def _make(self, count: int, context: int, which: int) -> Node:
        body = self._bodies.get(count)
        if body is None:
            following = self._behind(count + 1, 0), self._behind(count + 1, 1)
            body = self._bodies[count] = self._owner.convert(self._piece.body, *following)
        ways = [body]
        if count >= self._piece.low:
            ways = [self._rests, body] if self._piece.lazy else [body, self._rests]
        fixed: list[tuple[Rest, Rest]] = [(at(b, context), at(e, context)) for b, e in ways]
        return at(self._owner.first_of(fixed)[which], context)
