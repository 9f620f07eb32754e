"""Where expressions are made: equal ones become one object, simple rewritings keep them few.

The rewritings keep the number of states of a regular expression finite and small: unions and
intersections are sets (associative, commutative, idempotent), unions with one head are factored,
and counted repetitions of one body merge where their counts touch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from sgc_ir.automata.alike import Alike, Beyond
from sgc_ir.automata.counted import by_counts
from sgc_ir.automata.emptiness import find_alive
from sgc_ir.automata.joining import by_head, joined
from sgc_ir.automata.limits import DEFAULT_LIMITS, Limits
from sgc_ir.automata.merging import absorbed, added, gapless, is_text, rest_of_character, tail_of
from sgc_ir.automata.nodes import (
    Complement,
    Delayed,
    Intersection,
    Lazy,
    Literal,
    Node,
    Reference,
    Repeat,
    Row,
    Rule,
    Span,
    Union,
)
from sgc_ir.automata.nodes import Sequence as Then
from sgc_ir.automata.recorded import Memory, Recorded
from sgc_ir.automata.rows import (
    changed,
    complement_of_row,
    intersection_of_rows,
    merged,
    union_of_rows,
)
from sgc_ir.automata.store import ID_BITS, Store
from sgc_ir.automata.utf8 import ANY_CHAR, CharSet, Ranges, char_set
from sgc_ir.errors import ConstraintError

_JOINED = 40  # unions under one another that are factored at once; the others are later
_COPIED = 64  # bytes of a literal's rest from which on equal rests are one
_PUSHED = 16  # a head of at most this length has its tail moved in, so that equal states are one


class Pool(Store):
    """Makes the expressions of one automaton.

    Args:
        limits: bounds on nodes, time and emptiness questions.
        unproductive: rules that hold no finite text; a reference to one is the empty expression.

    Attributes:
        text: any text, `.*` with newlines; for others see `Store`.
        named: by the ids of some expressions, names that say in every process what they are.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS, unproductive: Collection[str] = ()) -> None:
        super().__init__(limits)
        self._unproductive = frozenset(unproductive)
        self.named: dict[int, bytes] = {}
        self._joining = self._num_cut = 0
        self.text: Node = self.repeat(self.span(ANY_CHAR, self.epsilon), 0, None)
        self._lasting.append(self.text)

    # Heads

    def literal(self, data: bytes, tail: Node, offset: int = 0) -> Node:
        """`data[offset:]`, then `tail`."""
        if offset == len(data) or tail is self.empty:
            return tail
        if offset and len(data) - offset <= _COPIED:
            data, offset = data[offset:], 0
        key = (data, offset, tail.id)
        found = self._interned.get(key)
        return found or self._keep(key, Literal(self._number(), data, offset, tail))

    def span(self, chars: CharSet, tail: Node) -> Node:
        """One character (or the rest of one), then `tail`."""
        if tail is self.empty:
            return tail
        key = chars.id << ID_BITS | tail.id
        found = self._spans.get(key)
        if found is None:
            found = self._spans[key] = Span(self._number(), chars, tail)
        return found

    def one_of(self, ranges: Ranges, tail: Node | None = None) -> Node:
        """One character of sorted, disjoint code point ranges, then `tail`."""
        if not any(low <= 0xD7FF or high >= 0xE000 for low, high in ranges):
            return self.empty
        return self.span(char_set(ranges), tail or self.epsilon)

    def string(self, text: str, tail: Node | None = None) -> Node:
        """`text`, then `tail`; no text at all where `text` holds a surrogate."""
        try:
            data = text.encode("utf-8")
        except UnicodeEncodeError:
            return self.empty
        return self.literal(data, tail or self.epsilon)

    # Combinations

    def sequence(self, head: Node, tail: Node) -> Node:
        """`head`, then `tail`."""
        if head is self.epsilon or tail is self.empty:
            return tail
        if tail is self.epsilon or head is self.empty:
            return head
        if head.length <= _PUSHED:
            if isinstance(head, Span):
                return self.span(head.chars, self.sequence(head.tail, tail))
            if isinstance(head, Literal):
                return self.literal(head.data, self.sequence(head.tail, tail), head.offset)
            if isinstance(head, Then):
                return self.sequence(head.head, self.sequence(head.tail, tail))
        if isinstance(head, Repeat):
            following, rest = (tail.head, tail.tail) if isinstance(tail, Then) else (tail, None)
            if isinstance(following, Repeat) and following.body is head.body:
                both = self.repeat(head.body, *added(head, following))
                return both if rest is None else self.then(both, rest)
        return self.then(head, tail)

    def then(self, head: Node, tail: Node) -> Node:
        """The same as one expression, with `head` whole."""
        key = head.id << ID_BITS | tail.id
        found = self._interned.get(key)
        return found or self._keep(key, Then(self._number(), head, tail))

    def chain(self, *parts: Node) -> Node:
        """All `parts` in order."""
        tail = self.epsilon
        for part in reversed(parts):
            tail = self.sequence(part, tail)
        return tail

    def repeat(self, body: Node, low: int, high: int | None = None) -> Node:
        """`body` at least `low` and at most `high` times; None: without end."""
        if body is self.empty or body is self.epsilon:
            return self.epsilon if low == 0 or body is self.epsilon else self.empty
        if body.nullable:
            low = 0
        if high == 0:
            return self.epsilon
        if low == 1 and high == 1:
            return body
        if isinstance(body, Repeat) and gapless(body, low, high):
            longest = None if high is None or body.high is None else high * body.high
            return self.repeat(body.body, low * body.low, longest)
        key = ("repeat", body.id, low, high)
        found = self._interned.get(key)
        return found or self._keep(key, Repeat(self._number(), body, low, high))

    def delayed(self, name: str, nullable: bool, make: Callable[[], Node]) -> Node:
        """The expression that `make` gives when it is first derived; one name, one expression.

        Args:
            name: the same in every process, and of no other language.
            nullable: whether the empty text is in it.
            make: makes it; the result may hold the delayed expression itself, but not begin
                with it.
        """
        key = ("delayed", name)
        found = self._interned.get(key)
        return found or self._keep(key, Delayed(self._number(), name, nullable, make))

    def lazy(self, name: str, make: Callable[[], Row], nullable: bool = False) -> Node:
        """A state of an automaton written by hand; one name, one state.

        Args:
            name: the same in every process, and of no other state of this automaton.
            make: gives the row when it is first asked for.
            nullable: whether the empty text is in it. Some text has to be.
        """
        key = ("lazy", name)
        found = self._interned.get(key)
        return found or self._keep(key, Lazy(self._number(), name, nullable, make))

    def alike(
        self,
        name: str,
        find: Callable[[], Alike],
        beyond: Callable[[Callable[[bytes], bool]], Beyond],
    ) -> Node:
        """The same for a state that is like an expression but for a few bytes (`alike.alike`), that
        is behind a few words (`alike.beyond`), and does not hold the empty text."""

        def row() -> Row:
            other, changes = find()
            return changed(other.row(self), changes)

        key = ("lazy", name)
        found = self._interned.get(key)
        return found or self._keep(key, Lazy(self._number(), name, False, row, find, beyond))

    def recorded(self, name: str, memory: Memory) -> Node:
        """The same as `lazy` for a state that remembers texts."""
        key = ("lazy", name)
        found = self._interned.get(key)
        return found or self._keep(key, Recorded(self._number(), name, memory))

    def optional(self, body: Node) -> Node:
        return self.union([body, self.epsilon])

    def union(self, items: Iterable[Node]) -> Node:
        """What is in any of `items`."""
        kept: dict[int, Node] = {}
        for item in items:
            for part in item.items if isinstance(item, Union) else (item,):
                if part.alive is not False:
                    kept[part.id] = part
        if self.text.id in kept:
            return self.text
        if len(kept) <= 1:
            return next(iter(kept.values()), self.empty)
        self.tick(len(kept))
        key = tuple(sorted(kept))
        found = self._unions.get(key)  # one of many stacks of an ambiguous grammar, as a rule
        if found is None:
            cut = self._num_cut
            found = self._union(self._factored(kept))
            if cut == self._num_cut:
                self._unions[key] = found
        return found

    def _union(self, parts: list[Node]) -> Node:
        if self.epsilon in parts and any(p.nullable for p in parts if p is not self.epsilon):
            parts.remove(self.epsilon)
        if any(part.looping for part in parts):
            parts = absorbed(parts)
        if len(parts) > 1:
            parts = by_counts(self, parts)
        if len(parts) <= 1:
            return parts[0] if parts else self.empty
        parts.sort(key=lambda part: part.id)
        key = ("union", *[part.id for part in parts])
        found = self._interned.get(key)
        return found or self._keep(key, Union(self._number(), tuple(parts)))

    def _factored(self, kept: dict[int, Node]) -> list[Node]:
        """`kept`, with one item for all that have one head."""
        groups = by_head(kept.values())
        if len(groups) == len(kept):
            return list(kept.values())
        if self._joining == _JOINED:
            self._num_cut += 1
            return list(kept.values())
        self._joining += 1
        try:
            return [
                part
                for group in groups
                for part in (group if len(group) == 1 else joined(self, group))
            ]
        finally:
            self._joining -= 1

    def intersection(self, items: Iterable[Node]) -> Node:
        """What is in each of `items`."""
        kept: dict[int, Node] = {}
        everything = self.text
        for item in items:
            for part in item.items if isinstance(item, Intersection) else (item,):
                if part.alive is False:
                    return self.empty
                if is_text(part, self.text):
                    everything = part
                else:
                    kept[part.id] = part
        parts = sorted(kept.values(), key=lambda part: part.id)
        if self.epsilon in parts:
            return self.epsilon if all(part.nullable for part in parts) else self.empty
        if len(parts) <= 1:
            return parts[0] if parts else everything
        inside = rest_of_character(parts)
        if inside is not None:
            return self.span(inside, self.intersection([tail_of(part) for part in parts]))
        for part in parts:
            if part.looping and isinstance(part, Union):
                others = [other for other in parts if other is not part]
                return self.union([self.intersection([*others, one]) for one in part.items])
        key = ("intersection", *[part.id for part in parts])
        found = self._interned.get(key)
        return found or self._keep(key, Intersection(self._number(), tuple(parts)))

    def complement(self, body: Node, rest: CharSet | None = None) -> Node:
        """Every legal text that is not in `body`; inside a character, `rest` completes it."""
        if body.alive is False:
            return self.text if rest is None else self.span(rest, self.text)
        if is_text(body, self.text):
            return self.empty
        if isinstance(body, Complement) and body.rest is rest:
            return body.body
        if isinstance(body, Span) and body.chars is rest:
            return self.span(rest, self.complement(body.tail))
        key = ("complement", body.id, None if rest is None else rest.id)
        found = self._interned.get(key)
        return found or self._keep(key, Complement(self._number(), body, rest))

    def difference(self, first: Node, second: Node) -> Node:
        """What is in `first` and not in `second`."""
        return self.intersection([first, self.complement(second)])

    # Rules

    def rule(self, name: str, nullable: bool) -> Node:
        """A reference to a rule, which `define` gives a body before the first derivative.

        Args:
            name: the rule; one name is one rule.
            nullable: whether the empty text is in it (known to whoever reads the grammar).
        """
        if name in self._unproductive:
            return self.empty
        rule = self._rules.setdefault(name, Rule(name, nullable))
        key = ("reference", name)
        found = self._interned.get(key)
        return found or self._keep(key, Reference(self._number(), rule))

    def define(self, name: str, body: Node) -> None:
        """Set the body of rule `name`; raises `ConstraintError` when it has one."""
        if name in self._unproductive:
            return
        rule = self._rules[name]
        if rule.body is not None:
            raise ConstraintError(f"rule {name} is defined twice", kind="malformed")
        assert body.nullable == rule.nullable, f"rule {name}: nullable is not what was said"
        rule.body = body

    @property
    def rules(self) -> Sequence[Rule]:
        return tuple(self._rules.values())

    # Derivatives

    def appended(self, head: Node, tail: Node) -> Node:
        """As `sequence`, remembered: for the same two again and again."""
        key = head.id << ID_BITS | tail.id
        both = self._followed.get(key)
        if both is None:
            both = self._followed[key] = self.sequence(head, tail)
        return both

    def followed(self, row: Row, tail: Node) -> Row:
        """The row with `tail` behind each derivative."""
        known, number, epsilon = self._followed, tail.id, self.epsilon
        out = []
        for low, high, node in row:
            if isinstance(node, Span) and node.tail is epsilon:
                out.append((low, high, self.span(node.chars, tail)))
                continue
            key = node.id << ID_BITS | number
            both = known.get(key)
            if both is None:
                both = known[key] = self.sequence(node, tail)
            out.append((low, high, both))
        return merged(out)

    def union_rows(self, rows: Sequence[Row]) -> Row:
        self.tick(len(rows))
        return union_of_rows(rows, self.union)

    def intersect_rows(self, rows: Sequence[Row]) -> Row:
        self.tick(len(rows))
        return intersection_of_rows(rows, self.intersection)

    def complement_row(self, row: Row, rest: CharSet | None) -> Row:
        """Derivatives of a complement whose body has `row`."""
        edges = (ANY_CHAR if rest is None else rest).edges
        return complement_of_row(row, edges, self.empty, self.complement)

    def is_alive(self, node: Node) -> bool:
        """Whether some text is in the set; remembered. Raises `ConstraintError` where the answer
        takes more than `limits.explored` expressions."""
        if node.alive is None:
            find_alive(self, node)
        return bool(node.alive)
