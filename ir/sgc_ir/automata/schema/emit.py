"""From forms to expressions over bytes: JSON texts in one style of white space."""

from __future__ import annotations

from dataclasses import dataclass

from sgc_ir.automata.nodes import Node
from sgc_ir.automata.pool import Pool
from sgc_ir.automata.schema.cells import Form, Goal
from sgc_ir.automata.schema.emit_arrays import ArrayWriter
from sgc_ir.automata.schema.emit_objects import ObjectWriter
from sgc_ir.automata.schema.feasible import Feasible
from sgc_ir.automata.schema.numbers import NumberTexts
from sgc_ir.automata.schema.single import Amounts, SingleTexts
from sgc_ir.automata.schema.strings import StringTexts
from sgc_ir.automata.schema.style import Level, Style


@dataclass(frozen=True, slots=True)
class Tools:
    """What writing needs: a pool, what is feasible, and the texts of scalars."""

    pool: Pool
    name: str
    style: Style
    feasible: Feasible
    strings: StringTexts
    numbers: NumberTexts


class Emitter:
    """Writes the values of goals; containers are made when the automaton reaches them."""

    def __init__(self, tools: Tools) -> None:
        self.tools = tools
        self._values: dict[tuple[Goal, Level], Node] = {}
        self._goals: dict[Goal, int] = {}
        self.amounts = Amounts(tools.pool)

    def value(self, goal: Goal, level: Level) -> Node:
        """A value that meets `goal`."""
        if not self.tools.style.indent:
            level = level._replace(depth=0)
        key = (goal, level)
        found = self._values.get(key)
        if found is None:
            found = self._values[key] = self._value(goal, level)
        return found

    def later(self, goal: Goal, level: Level) -> Node:
        """As `value`, of a goal that is met by some value; made when the automaton reaches it, for
        most members that may come never do."""
        if level.single:  # where some value need not have a text
            return self.value(goal, level)
        name = f"{self._named(goal, level)}v"
        pool = self.tools.pool
        return pool.lazy(name, lambda: self.value(goal, level).row(pool))

    def _named(self, goal: Goal, level: Level) -> str:
        number = self._goals.setdefault(goal, len(self._goals))
        return f"{self.tools.name}.{number}.{level.name}"

    def check(self) -> None:
        """Refuse arrays whose items are open and have to differ, where a value has several texts
        or there may be too few of them."""
        feasible = self.tools.feasible
        single = SingleTexts(self.tools.pool, feasible, self.tools.numbers)
        cells = (cell for goal in feasible.goals for cell in feasible.forms.of(goal).arrays)
        for cell in dict.fromkeys(cells):
            distinct = feasible.plans.distinct(cell)
            if distinct is not None and not distinct.listed and feasible.holds_array(cell):
                endless = single.check(cell)
                ArrayWriter(self, cell, Level(0, True), "").check(endless)

    def _value(self, goal: Goal, level: Level) -> Node:
        tools, form = self.tools, self.tools.feasible.forms.of(goal)
        parts = self._scalars(form, level.single)
        name = self._named(goal, level)
        arrays = [
            ArrayWriter(self, cell, level, f"{name}a{i}")
            for i, cell in enumerate(form.arrays)
            if tools.feasible.holds_array(cell)
        ]
        cells = [one for cell in form.objects for one in tools.feasible.plans.choices(cell)]
        plans = [tools.feasible.plans.object(cell) for cell in cells]
        objects = [
            ObjectWriter(self, plan, level, f"{name}o{i}")
            for i, plan in enumerate(plans)
            if tools.feasible.holds_object(plan)
        ]
        pool = tools.pool
        if arrays:
            parts.append(pool.literal(b"[", pool.union([writer.start() for writer in arrays])))
        if objects:
            parts.append(pool.literal(b"{", pool.union([writer.start() for writer in objects])))
        return pool.union(parts)

    def _scalars(self, form: Form, single: bool) -> list[Node]:
        pool, end = self.tools.pool, self.tools.pool.epsilon
        parts = [pool.literal(b"null", end)] if form.null else []
        for value, word in ((True, b"true"), (False, b"false")):
            if value in form.booleans:
                parts.append(pool.literal(word, end))
        feasible = self.tools.feasible
        numbers = [c for c in form.numbers if feasible.holds_number(c)]
        texts_of = self.tools.numbers.single if single else self.tools.numbers.text
        parts += [texts_of(cell) for cell in numbers]
        texts = [self.tools.strings.content(cell, free=not single) for cell in form.strings]
        alive = [text for text in texts if pool.is_alive(text)]
        if alive:
            parts.append(pool.literal(b'"', pool.union(alive)))
        return parts
