"""How many items an array may have, where items count for `contains`: a small automaton."""

from __future__ import annotations

from collections.abc import Callable

from sgc_ir.automata.schema.cells import Arrays, Goal
from sgc_ir.automata.schema.plans import Plans
from sgc_ir.errors import ConstraintError

State = tuple[int, tuple[int, ...]]  # items so far, and how many of them each `contains` counted
_MAX_STATES = 5_000


class ArrayCounts:
    """The lengths of one array cell.

    Args:
        cell: the array.
        plans: gives what each item may meet.
        holds: whether some value meets a goal.

    Attributes:
        possible: whether there is such an array.
        cap: the most items; None: no bound.
    """

    def __init__(self, cell: Arrays, plans: Plans, holds: Callable[[Goal], bool]) -> None:
        self._cell = cell
        self._plans = plans
        self._holds = holds
        self._alike = plans.last_index(cell)
        self.cap = self._cap()
        self._alive: set[State] = set()
        if cell.contains:
            self._solve()
            self.possible = self.start in self._alive
        else:
            self.possible = self.cap is None or cell.low <= self.cap

    def _cap(self) -> int | None:
        cell = self._cell
        for i in range(self._alike + 1):
            if cell.high is not None and i >= cell.high:
                break
            if not any(self._holds(goal) for goal, _ in self._plans.items(cell, i)):
                return i
        return cell.high

    @property
    def start(self) -> State:
        return 0, (0,) * len(self._cell.contains)

    def ends(self, state: State) -> bool:
        """Whether the array may end here."""
        index, counts = state
        enough = all(n >= one.low for n, one in zip(counts, self._cell.contains, strict=True))
        return enough and index >= self._cell.low

    def following(self, state: State) -> list[tuple[Goal, State]]:
        """Items that may come next, each with the state behind it."""
        return [pair for pair in self._following(state) if pair[1] in self._alive]

    def _following(self, state: State) -> list[tuple[Goal, State]]:
        index, counts = state
        if self.cap is not None and index >= self.cap:
            return []
        found: dict[State, list[Goal]] = {}
        for goal, counted in self._plans.items(self._cell, index):
            if not self._holds(goal):
                continue
            after = self._after(counts, counted)
            if after is not None:
                found.setdefault((self._moved(index), after), []).append(goal)
        return [(goal, state) for state, goals in found.items() for goal in goals]

    def _moved(self, index: int) -> int:
        if self.cap is not None:
            return index + 1
        return min(index + 1, max(self._alike, self._cell.low))

    def _after(self, counts: tuple[int, ...], counted: tuple[int, ...]) -> tuple[int, ...] | None:
        after = []
        for n, flag, one in zip(counts, counted, self._cell.contains, strict=True):
            n += flag
            if one.high is not None and n > one.high:
                return None
            after.append(n if one.high is not None else min(n, one.low))
        return tuple(after)

    def _solve(self) -> None:
        """Find the states from which the array can end."""
        order, before = [self.start], {self.start: list[State]()}
        for state in order:
            for _, after in self._following(state):
                if after not in before:
                    before[after] = []
                    order.append(after)
                before[after].append(state)
            if len(order) > _MAX_STATES:
                raise ConstraintError(
                    "contains and the lengths of the array have too many cases; make them smaller"
                )
        stack = [state for state in order if self.ends(state)]
        while stack:
            state = stack.pop()
            if state not in self._alive:
                self._alive.add(state)
                stack += before[state]
