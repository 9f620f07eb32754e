"""Expressions over bytes whose derivatives are again expressions: the states of an automaton.

An expression stands for a set of byte strings. Its derivative by a byte b is the set of what may
follow b. `row()` gives all 256 derivatives at once as byte ranges (Brzozowski 1964; sets of
transitions as in Owens, Reppy, Turon 2009). Equal expressions of one pool are one object, so an
expression is a state, and what was derived once stays known.

Expressions are written as a head and what follows it, so a derivative touches the head only.
Every text is UTF-8: heads are whole characters or what is left of one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from sgc_ir.automata.utf8 import CharSet
from sgc_ir.errors import ConstraintError

if TYPE_CHECKING:
    from sgc_ir.automata.alike import Alike, Beyond
    from sgc_ir.automata.pool import Pool

Row = tuple[tuple[int, int, "Node"], ...]  # (low byte, high byte, derivative), sorted, disjoint


class Node:
    """One expression.

    Attributes:
        id: number in its pool, in order of making.
        nullable: whether the empty text is in the set.
        sure: whether some text is in the set for certain (False: `Pool.is_alive` finds out).
        length: how many heads stand before the last tail.
        looping: whether a `Delayed` expression is in it, so that its derivatives may hold it again
            under ever more unions and intersections; the pool keeps them in disjunctive form.
    """

    __slots__ = ("_row", "alive", "id", "length", "looping", "nullable", "sure")

    def __init__(
        self, number: int, nullable: bool, sure: bool, length: int = 0, looping: bool = False
    ) -> None:
        self.id = number
        self.nullable = nullable
        self.sure = sure
        self.length = length
        self.looping = looping
        self.alive: bool | None = True if sure else None  # None: not known yet
        self._row: Row | None = None

    def row(self, pool: Pool) -> Row:
        """Derivatives by all bytes; ranges that nothing may follow are left out."""
        if self._row is None:
            for part in self.needs():
                if part._row is None:
                    return _derive(pool, self)
            self._row = self.derive(pool)
        return self._row

    def forget_row(self) -> None:
        """Free what `row` remembers."""
        self._row = None

    def dissolve(self) -> None:
        """Let go of what may hold this expression again; it is of no use any more."""
        self._row = None

    def needs(self) -> tuple[Node, ...]:
        """The expressions whose rows `derive` looks at."""
        return ()

    def derive(self, pool: Pool) -> Row:
        raise NotImplementedError


def _derive(pool: Pool, node: Node) -> Row:
    """Make the row of `node`, after those that it needs; without recursion, because chains of
    optional parts are long."""
    stack = [node]
    opened: set[int] = set()
    while stack:
        top = stack[-1]
        missing = [] if top._row else [part for part in top.needs() if part._row is None]
        if missing:
            if top.id in opened:
                raise _endless(stack)
            opened.add(top.id)
            stack += missing
            continue
        if top._row is None:
            top._row = top.derive(pool)
        stack.pop()
    assert node._row is not None
    return node._row


def _endless(stack: list[Node]) -> ConstraintError:
    names = [node.rule.name for node in stack if isinstance(node, Reference)]
    name = names[-1] if names else "of a loop"
    return ConstraintError(
        f"rule {name} begins with itself; write the repetition with * or +", kind="unsupported"
    )


def _dissolved() -> NoReturn:
    raise AssertionError("an expression of a pool that was dissolved")


class Empty(Node):
    """No text at all."""

    __slots__ = ()

    def derive(self, pool: Pool) -> Row:
        return ()


class Epsilon(Node):
    """The empty text alone."""

    __slots__ = ()

    def derive(self, pool: Pool) -> Row:
        return ()


class Literal(Node):
    """`data[offset:]`, then `tail`."""

    __slots__ = ("data", "offset", "tail")

    def __init__(self, number: int, data: bytes, offset: int, tail: Node) -> None:
        # As `Node` does, without a call: these are most of all.
        self.id, self.nullable, self._row = number, False, None
        self.length, self.looping = tail.length + 1, tail.looping
        self.sure = sure = tail.sure
        self.alive = True if sure else None
        self.data = data
        self.offset = offset
        self.tail = tail

    def derive(self, pool: Pool) -> Row:
        byte = self.data[self.offset]
        return ((byte, byte, pool.literal(self.data, self.tail, self.offset + 1)),)


class Span(Node):
    """One character of a set, or what is left of it, then `tail`."""

    __slots__ = ("chars", "tail")

    def __init__(self, number: int, chars: CharSet, tail: Node) -> None:
        # As `Node` does, without a call: these are most of all.
        self.id, self.nullable, self._row = number, False, None
        self.length, self.looping = tail.length + 1, tail.looping
        self.sure = sure = tail.sure
        self.alive = True if sure else None
        self.chars = chars
        self.tail = tail

    def derive(self, pool: Pool) -> Row:
        tail = self.tail
        return tuple(
            (low, high, tail if rest is None else pool.span(rest, tail))
            for low, high, rest in self.chars.edges
        )


class Sequence(Node):
    """`head`, then `tail`."""

    __slots__ = ("head", "tail")

    def __init__(self, number: int, head: Node, tail: Node) -> None:
        self.id, self.nullable, self._row = number, head.nullable and tail.nullable, None
        self.length, self.looping = tail.length + 1, head.looping or tail.looping
        self.sure = sure = head.sure and tail.sure
        self.alive = True if sure else None
        self.head = head
        self.tail = tail

    def needs(self) -> tuple[Node, ...]:
        head = self.head
        first = head.needs() if isinstance(head, Repeat) else (head,)
        return (*first, self.tail) if head.nullable else first

    def derive(self, pool: Pool) -> Row:
        head, tail = self.head, self.tail
        if isinstance(head, Repeat):
            row = head.before(pool, tail)
        else:
            row = pool.followed(head.row(pool), tail)
        return pool.union_rows([row, tail.row(pool)]) if head.nullable else row


class Union(Node):
    """What is in any of `items`."""

    __slots__ = ("items",)

    def __init__(self, number: int, items: tuple[Node, ...]) -> None:
        super().__init__(
            number,
            any(item.nullable for item in items),
            any(item.sure for item in items),
            looping=any(item.looping for item in items),
        )
        self.items = items

    def needs(self) -> tuple[Node, ...]:
        return self.items

    def derive(self, pool: Pool) -> Row:
        return pool.union_rows([item.row(pool) for item in self.items])


class Intersection(Node):
    """What is in each of `items`."""

    __slots__ = ("items",)

    def __init__(self, number: int, items: tuple[Node, ...]) -> None:
        super().__init__(
            number,
            all(item.nullable for item in items),
            False,
            looping=any(item.looping for item in items),
        )
        self.items = items

    def needs(self) -> tuple[Node, ...]:
        return self.items

    def derive(self, pool: Pool) -> Row:
        return pool.intersect_rows([item.row(pool) for item in self.items])


class Complement(Node):
    """Every legal text that is not in `body`; inside a character, `rest` completes it."""

    __slots__ = ("body", "rest")

    def __init__(self, number: int, body: Node, rest: CharSet | None) -> None:
        super().__init__(number, rest is None and not body.nullable, False)
        self.body = body
        self.rest = rest

    def needs(self) -> tuple[Node, ...]:
        return (self.body,)

    def derive(self, pool: Pool) -> Row:
        return pool.complement_row(self.body.row(pool), self.rest)


class Repeat(Node):
    """`body` at least `low` and at most `high` times (None: any number)."""

    __slots__ = ("_plain", "body", "high", "low")

    def __init__(self, number: int, body: Node, low: int, high: int | None) -> None:
        super().__init__(number, low == 0, low == 0 or body.sure)
        self._plain: CharSet | None = None
        if isinstance(body, Span) and isinstance(body.tail, Epsilon):
            self._plain = body.chars
        self.body = body
        self.low = low
        self.high = high

    def needs(self) -> tuple[Node, ...]:
        return () if self._plain is not None else (self.body,)

    def plain(self) -> CharSet | None:
        """The set that the body is one character of, where it is no more."""
        return self._plain

    def derive(self, pool: Pool) -> Row:
        return self.before(pool, pool.epsilon)

    def before(self, pool: Pool, tail: Node) -> Row:
        """Derivatives of the repetition with `tail` behind it; `tail`'s own are not among them."""
        high = None if self.high is None else self.high - 1
        then = pool.sequence(pool.repeat(self.body, max(self.low - 1, 0), high), tail)
        chars = self.plain()
        if chars is None:
            return pool.followed(self.body.row(pool), then)
        return tuple(
            [
                (low, high, then if rest is None else pool.span(rest, then))
                for low, high, rest in chars.edges
            ]
        )


class Delayed(Node):
    """An expression that is made when it is first derived, and may hold itself.

    Attributes:
        name: says in every process which one it is.
    """

    __slots__ = ("_body", "_make", "name")

    def __init__(self, number: int, name: str, nullable: bool, make: Callable[[], Node]) -> None:
        super().__init__(number, nullable, nullable, looping=True)
        self.name = name
        self._make = make
        self._body: Node | None = None

    @property
    def body(self) -> Node:
        if self._body is None:
            try:
                self._body = self._make()
            except RecursionError:
                raise ConstraintError("an iteration nests too many parts; flatten it") from None
            assert self._body.nullable == self.nullable
        return self._body

    def dissolve(self) -> None:
        self._row = self._body = None
        self._make = _dissolved

    def needs(self) -> tuple[Node, ...]:
        return (self.body,)

    def derive(self, pool: Pool) -> Row:
        return self.body.row(pool)


class Lazy(Node):
    """A state of an automaton that is written by hand, and that holds a text for certain.

    Attributes:
        name: says in every process which one it is, as long as the automaton is the same.
        alike, beyond: tell which other expression it is like, where it is so (`alike`).
    """

    __slots__ = ("_make", "alike", "beyond", "name")

    def __init__(
        self,
        number: int,
        name: str,
        nullable: bool,
        make: Callable[[], Row],
        alike: Callable[[], Alike] | None = None,
        beyond: Callable[[Callable[[bytes], bool]], Beyond] | None = None,
    ) -> None:
        super().__init__(number, nullable, True)
        self.name = name
        self.alike, self.beyond = alike, beyond
        self._make = make

    def derive(self, pool: Pool) -> Row:
        return self._make()

    def dissolve(self) -> None:
        self._row = self.alike = self.beyond = None
        self._make = _dissolved


class Rule:
    """A named expression that may hold itself; `body` is set once, by `Pool.define`."""

    __slots__ = ("body", "name", "nullable")

    def __init__(self, name: str, nullable: bool) -> None:
        self.name = name
        self.nullable = nullable
        self.body: Node | None = None


class Reference(Node):
    """The expression of a rule."""

    __slots__ = ("rule",)

    def __init__(self, number: int, rule: Rule) -> None:
        super().__init__(number, rule.nullable, True)
        self.rule = rule

    @property
    def body(self) -> Node:
        if self.rule.body is None:
            raise ConstraintError(
                f"rule {self.rule.name} is used and never defined; define it", kind="malformed"
            )
        return self.rule.body

    def needs(self) -> tuple[Node, ...]:
        return (self.body,)

    def derive(self, pool: Pool) -> Row:
        return self.body.row(pool)
