"""Objects as expressions: a state for each position among the declared names, linear in their
number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sgc_ir.automata.nodes import Lazy, Node, Row
from sgc_ir.automata.schema.cells import Goal
from sgc_ir.automata.schema.open_names import OpenNames
from sgc_ir.automata.schema.plans import ObjectPlan
from sgc_ir.automata.schema.spelling import spelled
from sgc_ir.automata.schema.style import Level
from sgc_ir.automata.schema.words import branches

if TYPE_CHECKING:
    from sgc_ir.automata.schema.emit import Emitter

_FEW = 3  # so few names that may come next are a plain union


class ObjectWriter:
    """Writes the objects of one plan, from behind the opening bracket.

    A state is (number of the first name that may still come, members so far). Members are counted
    only where their number matters; all names that are not declared count as one for the lower
    bound, because they could be equal.
    """

    def __init__(self, emitter: Emitter, plan: ObjectPlan, level: Level, name: str) -> None:
        self._emitter = emitter
        self._pool = emitter.tools.pool
        self._level = level
        self._name = name
        holds = emitter.tools.feasible.holds
        kept = [
            (text, goal, must)
            for text, goal, must in zip(plan.names, plan.goals, plan.required, strict=True)
            if holds(goal)
        ]
        self._keys = [spelled(text).encode() + b'"' for text, _, _ in kept]
        self._goals: list[Goal] = [goal for _, goal, _ in kept]
        self._free = [(text, goal) for text, goal in plan.free if holds(goal)]
        self._special = [(text, goal) for text, goal in plan.special if holds(goal)]
        self._needs_special = plan.needs_special
        self._low, self._high = plan.low, plan.high
        self._next_required, self._required_left = self._required([must for _, _, must in kept])
        most = len(kept) if not (self._free or self._needs_special) else None
        self._counting = self._required_left[0] < self._low or (
            self._high is not None and (most is None or most > self._high)
        )
        order = sorted(range(len(kept)), key=self._keys.__getitem__)
        self._sorted = [self._keys[i] for i in order]
        self._order = order

    @staticmethod
    def _required(required: list[bool]) -> tuple[list[int], list[int]]:
        """For each position the next required name (or their number), and how many follow."""
        size = len(required)
        following, left = [size] * (size + 1), [0] * (size + 1)
        for i in range(size - 1, -1, -1):
            following[i] = i if required[i] else following[i + 1]
            left[i] = left[i + 1] + required[i]
        return following, left

    def start(self) -> Node:
        return self._state(0, False, 0)

    def _state(self, index: int, started: bool, count: int) -> Node:
        if index == len(self._keys) and not (self._free or self._needs_special):
            return self._close(started)
        name = f"{self._name}.{index}.{started:d}.{count}"
        return self._pool.lazy(name, lambda: self._row(index, started, count))

    def _row(self, index: int, started: bool, count: int) -> Row:
        return self._members(index, started, count).row(self._pool)

    def _members(self, index: int, started: bool, count: int) -> Node:
        pool = self._pool
        parts = []
        first, last = self._choices(index, count)
        if first <= last and self._next_required[index] == len(self._keys) and self._is_open():
            return pool.union([self._open(first, last, started), self._close(started)])
        if first <= last:
            before = self._before(started)
            parts.append(pool.literal(before, self._choice(first, last, count)))
        if self._next_required[index] == len(self._keys):
            parts.append(self._others(started, count))
        return pool.union(parts)

    def _choices(self, index: int, count: int) -> tuple[int, int]:
        """The first and the last name that may come next."""
        size = len(self._keys)
        required = self._next_required[index]
        first, last = index, min(required, size - 1)
        if not self._counting:
            return first, last
        if self._high is not None:
            high = self._high - self._needs_special
            if count >= high:
                return 0, -1
            if count + 1 + self._required_left[index] > high:
                first = required  # no room for a name that need not be there
        # After name k, count + 1 + (size - k - 1) + (1 if others) members can be reached.
        others = bool(self._free or self._needs_special)
        return first, min(last, count + size + others - self._low)

    def _choice(self, first: int, last: int, count: int) -> Node:
        if last - first < _FEW:
            members = [
                self._pool.literal(self._keys[i], self._member(i, count))
                for i in range(first, last + 1)
            ]
            return self._pool.union(members)
        return self._keyed(0, len(self._sorted), 0, (first, last, count))

    def _keyed(self, low: int, high: int, depth: int, choice: tuple[int, int, int]) -> Node:
        """Inside a name: those of the sorted names low..high that are of the choice."""
        first, last, count = choice
        inside = [p for p in range(low, high) if first <= self._order[p] <= last]
        if len(inside) == 1:
            member = self._member(self._order[inside[0]], count)
            return self._pool.literal(self._sorted[inside[0]], member, depth)
        low, high = inside[0], inside[-1] + 1
        name = f"{self._name}.k{low}.{high}.{depth}.{first}.{last}.{count}"
        return self._pool.lazy(name, lambda: self._keyed_row(low, high, depth, choice))

    def _keyed_row(self, low: int, high: int, depth: int, choice: tuple[int, int, int]) -> Row:
        first, last, _ = choice
        return tuple(
            (byte, byte, self._keyed(begin, end, depth + 1, choice))
            for byte, begin, end in branches(self._sorted, low, high, depth)
            if any(first <= self._order[p] <= last for p in range(begin, end))
        )

    def _member(self, index: int, count: int) -> Node:
        """What follows the name: colon, value, and the rest of the object."""
        rest = self._state(index + 1, True, count + 1 if self._counting else 0)
        value = self._emitter.later(self._goals[index], self._level.below)
        return self._pool.literal(self._colon, self._pool.sequence(value, rest))

    # Names that are not declared, and the end

    def _is_open(self) -> bool:
        """Whether any name may come that is not declared, with values of one kind."""
        if self._counting or self._needs_special or len(self._free) != 1:
            return False
        others = self._free[0][0]
        return isinstance(others, Lazy) and others.alike is not None

    def _open(self, first: int, last: int, started: bool) -> Node:
        """A declared name of the choice, or names that are not declared; none is required."""
        pool, others = self._pool, self._free[0][0]
        places = [place for place, i in enumerate(self._order) if first <= i <= last]
        value = pool.literal(self._colon, self._emitter.later(self._free[0][1], self._level.below))
        more = pool.repeat(pool.literal(self._before(True), pool.sequence(others, value)), 0, None)
        names = OpenNames(
            pool,
            f"{self._name}.o{first}.{last}",
            [self._sorted[place] for place in places],
            lambda number: self._member(self._order[places[number]], 0),
            pool.chain(value, more, self._close(True)),
        )
        return pool.literal(self._before(started), names.start(others))

    def _others(self, started: bool, count: int) -> Node:
        pool = self._pool
        needed = max(self._low - count, 0) if self._counting else 0
        if needed > 1:
            return pool.empty  # names that are not declared could all be one
        left = None if self._high is None else self._high - count
        close = self._close(True)
        if not (self._free or self._needs_special) or left == 0:
            return pool.empty if needed else self._close(started)
        if self._needs_special:
            return self._with_special(started, left)
        member = self._one_of(self._free)
        following = pool.literal(self._before(True), member)
        if started:
            return pool.sequence(pool.repeat(following, needed, left), close)
        more = pool.repeat(following, 0, None if left is None else left - 1)
        some = pool.literal(self._before(False), pool.chain(member, more, close))
        return some if needed else pool.union([some, self._close(False)])

    def _with_special(self, started: bool, left: int | None) -> Node:
        """Members of which the last is special: none behind it may have its name, which would take
        its place when the text is read."""
        pool = self._pool
        special, free = self._one_of(self._special), self._one_of(self._free)
        first, later = self._before(started), self._before(True)
        last = pool.sequence(special, self._close(True))
        if left == 1:
            return pool.literal(first, last)
        more = pool.repeat(pool.literal(later, free), 0, None if left is None else left - 2)
        ahead = pool.chain(free, more, pool.literal(later, last))
        return pool.literal(first, pool.union([last, ahead]))

    def _one_of(self, members: list[tuple[Node, Goal]]) -> Node:
        pool = self._pool
        return pool.union(
            [
                pool.sequence(
                    text,
                    pool.literal(self._colon, self._emitter.later(goal, self._level.below)),
                )
                for text, goal in members
            ]
        )

    @property
    def _colon(self) -> bytes:
        return self._emitter.tools.style.colon.encode()

    def _before(self, started: bool) -> bytes:
        return self._emitter.tools.style.before(started, self._level.depth + 1) + b'"'

    def _close(self, started: bool) -> Node:
        end = self._emitter.tools.style.after(started, self._level.depth) + b"}"
        return self._pool.literal(end, self._pool.epsilon)
