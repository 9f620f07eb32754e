"""Whether each value has one text, for items that have to differ, and how many texts there are.

Strings and numbers have one text that the schema does not change (`StringTexts`, `NumberTexts`).
Members of an object stand in the order of the schema: they have one text where no other names are
allowed, and where all schemas of the same place name them in one order.
"""

from __future__ import annotations

from collections.abc import Iterator

from sgc_ir.automata.nodes import Node
from sgc_ir.automata.pool import Pool
from sgc_ir.automata.recorded import Memory, memories
from sgc_ir.automata.schema.cells import Arrays, Form, Goal
from sgc_ir.automata.schema.distinct import MOST_ITEMS
from sgc_ir.automata.schema.feasible import Feasible
from sgc_ir.automata.schema.keywords import unsupported
from sgc_ir.automata.schema.numbers import NumberTexts
from sgc_ir.automata.schema.plans import ObjectPlan

_LEVELS, _WIDTH = 64, 64  # of a count of texts: bytes, and expressions after so many bytes
_MOST_NAMES = 64  # of an object, where another schema of its place may name them otherwise

Goals = frozenset[Goal]


class Amounts:
    """How many texts the expressions of one pool have, counted as far as that is easy."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known: dict[int, tuple[Node, int]] = {}  # the node is held, so that it has its id
        self._asked: set[int] = set()

    def above(self, node: Node, number: int) -> bool:
        """Whether more than `number` texts are in `node`; False also where it is hard to say."""
        known = self._known.get(node.id)
        if known is not None and known[1] > number:
            return True
        if node.id in self._asked:  # it holds itself
            return False
        self._asked.add(node.id)
        try:
            least = self._least(node, number)
        finally:
            self._asked.discard(node.id)
        if not any(memories(node)):  # of which there is no end, and which are soon asked
            self._known[node.id] = node, least
        return least > number

    def _least(self, node: Node, enough: int) -> int:
        """A number of texts that `node` has at least: of as many beginnings of one length, each
        goes on to a text of its own."""
        pool, ended, level = self._pool, 0, {node: 1} if self._pool.is_alive(node) else {}
        for _ in range(_LEVELS):
            ended += sum(number for one, number in level.items() if one.nullable)
            following: dict[Node, int] = {}
            for one, number in level.items():
                recorded = list(memories(one))
                if recorded:  # their rows ask for such numbers themselves
                    ended += number + _more(recorded, enough)
                    continue
                for low, high, rest in one.row(pool):
                    if pool.is_alive(rest):
                        following[rest] = following.get(rest, 0) + number * (high - low + 1)
            level = following
            least = ended + sum(level.values())
            if least > 16 * enough + 65_536 or not level or len(level) > _WIDTH:
                return least
        return ended + sum(level.values())


def _more(recorded: list[Memory], enough: int) -> int:
    """How many more texts than one such states have, as far as that is easy to say."""
    for number in (max(enough, MOST_ITEMS), enough):
        if any(memory.has_more(number) for memory in recorded):
            return number
    return 0


class SingleTexts:
    """Looks at the items of arrays of one document, after its goals are solved."""

    def __init__(self, pool: Pool, feasible: Feasible, numbers: NumberTexts) -> None:
        self._pool, self._feasible, self._numbers = pool, feasible, numbers

    def check(self, cell: Arrays) -> bool:
        """Refuse the cell where a value of its items could have several texts.

        Returns:
            Whether the cell is inside itself.

        Raises:
            ConstraintError: kind "unsupported".
        """
        within: set[Arrays] = set()
        start = frozenset(self._items(cell))
        stack, seen = [start], {start}
        while stack:
            goals = stack.pop()
            self._pool.tick(len(goals))
            forms = [self._feasible.forms.of(goal) for goal in goals]
            within.update(inner for form in forms for inner in form.arrays)
            for below in self._place(forms, cell.unique):
                if below not in seen:
                    seen.add(below)
                    stack.append(below)
        return cell in within

    def _items(self, cell: Arrays) -> Iterator[Goal]:
        plans = self._feasible.plans
        for i in range(plans.last_index(cell) + 1):
            if cell.high is None or i < cell.high:
                yield from (goal for goal, _ in plans.items(cell, i))

    def _place(self, forms: list[Form], where: str) -> Iterator[Goals]:
        """Check what stands at one place; the goals at the places below it."""
        holds = self._feasible.holds
        for number in (one for form in forms for one in form.numbers):
            if self._feasible.holds_number(number):
                if not self._pool.is_alive(self._numbers.single(number)):
                    raise unsupported("uniqueItems on numbers of more than 15 digits", where)
        plans = [plan for form in forms for plan in self._plans(form)]
        names = [self._names(plan, where) for plan in plans]
        self._pool.tick(sum(len(one) ** 2 for one in names) // 8)
        if not _in_one_order(names):
            raise unsupported("uniqueItems on objects that are named in different orders", where)
        below: dict[str, set[Goal]] = {}
        for plan in plans:
            for name, goal in zip(plan.names, plan.goals, strict=True):
                if holds(goal):
                    below.setdefault(name, set()).add(goal)
        yield from map(frozenset, below.values())
        cells = [cell for form in forms for cell in form.arrays]
        items = frozenset(goal for cell in cells for goal in self._items(cell) if holds(goal))
        if items:
            yield items

    def _plans(self, form: Form) -> Iterator[ObjectPlan]:
        plans = self._feasible.plans
        for cell in form.objects:
            for one in plans.choices(cell):
                plan = plans.object(one)
                if self._feasible.holds_object(plan):
                    yield plan

    def _names(self, plan: ObjectPlan, where: str) -> list[str]:
        holds = self._feasible.holds
        if plan.needs_special or any(holds(goal) for _, goal in plan.free):
            raise unsupported(
                "uniqueItems on objects of any names (additionalProperties is not false)", where
            )
        return [name for name, goal in zip(plan.names, plan.goals, strict=True) if holds(goal)]


def _in_one_order(lists: list[list[str]]) -> bool:
    """Whether no two names stand in different orders in two of the lists."""
    different = list({tuple(names): names for names in lists}.values())
    if len(different) <= 1:
        return True
    if max(map(len, different)) > _MOST_NAMES:
        return False
    pairs = {(a, b) for names in different for i, a in enumerate(names) for b in names[i + 1 :]}
    return not any((b, a) in pairs for a, b in pairs)
