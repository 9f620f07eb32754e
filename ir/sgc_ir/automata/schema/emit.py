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
from sgc_ir.automata.schema.strings import StringTexts
from sgc_ir.automata.schema.style import Style


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
        self._values: dict[tuple[Goal, int], Node] = {}
        self._goals: dict[Goal, int] = {}

    def value(self, goal: Goal, depth: int) -> Node:
        """A value that meets `goal`, inside `depth` containers."""
        if not self.tools.style.indent:
            depth = 0
        key = (goal, depth)
        found = self._values.get(key)
        if found is None:
            found = self._values[key] = self._value(goal, depth)
        return found

    def _value(self, goal: Goal, depth: int) -> Node:
        tools, form = self.tools, self.tools.feasible.forms.of(goal)
        parts = self._scalars(form)
        name = f"{tools.name}.{self._goals.setdefault(goal, len(self._goals))}.{depth}"
        arrays = [
            ArrayWriter(self, cell, depth, f"{name}a{i}")
            for i, cell in enumerate(form.arrays)
            if tools.feasible.holds_array(cell)
        ]
        cells = [one for cell in form.objects for one in tools.feasible.plans.choices(cell)]
        plans = [tools.feasible.plans.object(cell) for cell in cells]
        objects = [
            ObjectWriter(self, plan, depth, f"{name}o{i}")
            for i, plan in enumerate(plans)
            if tools.feasible.holds_object(plan)
        ]
        pool = tools.pool
        if arrays:
            parts.append(pool.literal(b"[", pool.union([writer.start() for writer in arrays])))
        if objects:
            parts.append(pool.literal(b"{", pool.union([writer.start() for writer in objects])))
        return pool.union(parts)

    def _scalars(self, form: Form) -> list[Node]:
        pool, end = self.tools.pool, self.tools.pool.epsilon
        parts = [pool.literal(b"null", end)] if form.null else []
        for value, word in ((True, b"true"), (False, b"false")):
            if value in form.booleans:
                parts.append(pool.literal(word, end))
        feasible = self.tools.feasible
        numbers = [c for c in form.numbers if feasible.holds_number(c)]
        parts += [self.tools.numbers.text(cell) for cell in numbers]
        texts = [self.tools.strings.content(cell) for cell in form.strings]
        alive = [text for text in texts if pool.is_alive(text)]
        if alive:
            parts.append(pool.literal(b'"', pool.union(alive)))
        return parts
