"""Which goals some finite JSON value meets, and whether two forms may have a value in common."""

from __future__ import annotations

from collections.abc import Iterator

from sgc_ir.automata.pool import Pool
from sgc_ir.automata.schema.cells import (
    NOTHING,
    Arrays,
    Form,
    Goal,
    Numbers,
    Objects,
    all_of,
    empty_range,
)
from sgc_ir.automata.schema.counts import ArrayCounts
from sgc_ir.automata.schema.distinct import listed_values
from sgc_ir.automata.schema.forms import Forms
from sgc_ir.automata.schema.keywords import EndlessError
from sgc_ir.automata.schema.numbers import NumberTexts
from sgc_ir.automata.schema.plans import ObjectPlan, Plans
from sgc_ir.automata.schema.strings import StringTexts
from sgc_ir.errors import ConstraintError

_LEVELS = 4  # how deep a look for a contradiction between two branches goes


class Feasible:
    """Answers for the goals of one document.

    `solve` finds every goal below the first one and, as a least fixed point, those that a finite
    value meets; only after it `holds` and `holds_object` may be asked.

    Attributes:
        goals: all goals below the first one, that one included.
    """

    def __init__(self, pool: Pool, texts: StringTexts, numbers: NumberTexts) -> None:
        self._pool = pool
        self._texts = texts
        self._numbers = numbers
        self._met: set[Goal] = set()
        self.goals: list[Goal] = []
        self._tagged: dict[int, tuple[Form, dict[str, frozenset[str]]]] = {}
        self.forms: Forms
        self.plans: Plans

    def connect(self, forms: Forms, plans: Plans) -> None:
        """Set what was made after this object, and uses it."""
        self.forms = forms
        self.plans = plans

    # All goals

    def solve(self, start: Goal) -> bool:
        """Whether some value meets `start`."""
        self.goals = order = self._below(start)
        changed = True
        while changed:
            changed = False
            for goal in reversed(order):
                if goal not in self._met and self._holds(self.forms.of(goal)):
                    self._met.add(goal)
                    changed = True
        for goal in order:
            self._check_sizes(self.forms.of(goal), goal)
        return start in self._met

    def _below(self, start: Goal) -> list[Goal]:
        order = [start]
        seen = {start}
        for goal in order:
            self._pool.tick()
            for child in self._children(self.forms.of(goal)):
                if child not in seen:
                    seen.add(child)
                    order.append(child)
        return order

    def _children(self, form: Form) -> Iterator[Goal]:
        for array in form.arrays:
            self.plans.distinct(array)  # refused here, not when a value is written
            for i in range(self.plans.last_index(array) + 1):
                yield from (goal for goal, _ in self.plans.items(array, i))
        for cell in form.objects:
            for one in self.plans.choices(cell):
                plan = self.plans.object(one)
                yield from plan.goals
                yield from (goal for _, goal in plan.free + plan.special)

    def holds(self, goal: Goal) -> bool:
        """Whether some value meets `goal`."""
        return goal in self._met

    def _holds(self, form: Form) -> bool:
        return (
            self.scalar(form)
            or any(self.holds_array(cell) for cell in form.arrays)
            or any(
                self.holds_object(self.plans.object(one))
                for cell in form.objects
                for one in self.plans.choices(cell)
            )
        )

    def scalar(self, form: Form) -> bool:
        """Whether null, a boolean, a number or a string is allowed."""
        if form.null or form.booleans or any(self.holds_number(c) for c in form.numbers):
            return True
        return any(self._texts.nonempty(cell) for cell in form.strings)

    def holds_number(self, cell: Numbers) -> bool:
        if cell.values is not None:
            return bool(cell.values)
        if not (cell.excluded or cell.no_steps):
            return not empty_range(cell)
        return self._pool.is_alive(self._numbers.text(cell))

    def holds_array(self, cell: Arrays) -> bool:
        distinct = self.plans.distinct(cell)
        if distinct is not None and distinct.listed:
            return distinct.alive(0, frozenset())
        return ArrayCounts(cell, self.plans, self.holds).possible

    def holds_object(self, plan: ObjectPlan) -> bool:
        """Whether the required members can be there and their number is right."""
        met = [self.holds(goal) for goal in plan.goals]
        needed = sum(plan.required)
        if not all(ok for ok, must in zip(met, plan.required, strict=True) if must):
            return False
        if plan.high is not None and needed + plan.needs_special > plan.high:
            return False
        free = any(self.holds(goal) for _, goal in plan.free)
        if plan.needs_special:
            free = any(self.holds(goal) for _, goal in plan.special)
            if not free:
                return False
        return sum(met) + free >= plan.low

    def _check_sizes(self, form: Form, goal: Goal) -> None:
        """Refuse objects that need more members than are named, and could have them."""
        for cell in form.objects:
            for one in self.plans.choices(cell) if cell.low > 1 else ():
                plan = self.plans.object(one)
                named = sum(self.holds(goal) for goal in plan.goals)
                if named + 1 < plan.low and any(self.holds(goal) for _, goal in plan.free):
                    raise ConstraintError(
                        f"minProperties {plan.low} needs several members that no keyword names; "
                        "declare them in properties",
                        kind="unsupported",
                        where=self.forms.where(goal),
                    )

    # Two forms

    def overlap(self, first: Form, second: Form) -> bool:
        """Whether the forms are not shown to have no value in common."""
        self._pool.tick(16)
        if self._told_apart(first, second):
            return False
        return not self._empty(all_of(first, second), _LEVELS)

    def _told_apart(self, first: Form, second: Form) -> bool:
        """Whether both are objects with a required member whose listed values differ."""
        one, other = self._tags(first), self._tags(second)
        return any(name in other and not (one[name] & other[name]) for name in one)

    def _tags(self, form: Form) -> dict[str, frozenset[str]]:
        """Required members of the one object cell of `form`, with their values where listed."""
        known = self._tagged.get(id(form))
        if known is None:
            self._tagged[id(form)] = known = (form, self._find_tags(form))
        return known[1]

    def _find_tags(self, form: Form) -> dict[str, frozenset[str]]:
        if form.null or form.booleans or form.numbers or form.strings or form.arrays:
            return {}
        if len(form.objects) != 1:
            return {}
        plan = self.plans.object(form.objects[0])
        tags = {}
        for name, goal, must in zip(plan.names, plan.goals, plan.required, strict=True):
            known = self._known(goal) if must else None
            values = None if known is None else listed_values(known, self._texts)
            if values is not None:
                tags[name] = frozenset(values)
        return tags

    def _empty(self, form: Form, levels: int) -> bool:
        """Whether no value is shown to be in `form`, looking a few levels down."""
        if self.scalar(form):
            return False
        if not all(self._no_array(cell, levels) for cell in form.arrays):
            return False
        return all(self._no_object(cell, levels) for cell in form.objects)

    def _no(self, goal: Goal, levels: int) -> bool:
        if goal == NOTHING:
            return True
        known = self._known(goal) if levels and goal else None
        return known is not None and self._empty(known, levels - 1)

    def _known(self, goal: Goal) -> Form | None:
        """The form of a goal; None while it is being made, around the question."""
        try:
            return self.forms.of(goal)
        except EndlessError:
            if not self.forms.busy:
                raise
            return None

    def _no_array(self, cell: Arrays, levels: int) -> bool:
        needed = min(cell.low, self.plans.last_index(cell) + 1)
        return any(self._no(cell.item(i), levels) for i in range(needed))

    def _no_object(self, cell: Objects, levels: int) -> bool:
        try:
            cells = self.plans.choices(cell)
        except ConstraintError as error:
            if error.kind != "unsupported":
                raise
            return False
        return all(self._no_members(self.plans.object(one), levels) for one in cells)

    def _no_members(self, plan: ObjectPlan, levels: int) -> bool:
        if plan.high is not None and sum(plan.required) + plan.needs_special > plan.high:
            return True
        if plan.needs_special and all(self._no(goal, levels) for _, goal in plan.special):
            return True
        if not plan.free and len(plan.names) < plan.low:
            return True
        return any(
            must and self._no(goal, levels)
            for goal, must in zip(plan.goals, plan.required, strict=True)
        )
