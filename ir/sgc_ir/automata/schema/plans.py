"""Object and array cells laid out for writing: which members and items there may be, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from sgc_ir.automata.nodes import Node
from sgc_ir.automata.schema.cells import ANYTHING, NOTHING, Arrays, Goal, Layer, Objects, Some, both
from sgc_ir.automata.schema.distinct import DistinctItems
from sgc_ir.automata.schema.forms import Forms
from sgc_ir.automata.schema.keywords import unsupported
from sgc_ir.automata.schema.strings import StringTexts
from sgc_ir.errors import ConstraintError

_MAX_CLASSES = 64  # of names that are not declared, by the patterns that they meet
_MAX_CONTAINS = 3
_MAX_PLACES = 32  # of a member that there has to be, where the number of members is bounded

_Classes = tuple[tuple[Node, Goal], ...]


@dataclass(frozen=True, slots=True)
class ObjectPlan:
    """Members of an object.

    Attributes:
        names, goals: declared names in order, and what their values have to meet.
        required: whether each has to be there.
        free: classes of other names (from behind the first quote) with the goal of their values.
        special: likewise, of which there has to be a member where `needs_special` is set.
        low, high: number of members.
    """

    names: tuple[str, ...]
    goals: tuple[Goal, ...]
    required: tuple[bool, ...]
    free: _Classes
    special: _Classes
    needs_special: bool
    low: int
    high: int | None


class Plans:
    """Lays out the cells of one document."""

    def __init__(self, forms: Forms, texts: StringTexts) -> None:
        self._forms = forms
        self._texts = texts
        self._objects: dict[Objects, ObjectPlan] = {}
        self._distinct: dict[Arrays, DistinctItems] = {}

    # Objects

    def choices(self, cell: Objects) -> list[Objects]:
        """`cell` as a choice of cells in which each member that there has to be is a declared one,
        or (one at most) has a name that is not declared."""
        if not cell.some:
            return [cell]
        cells = [replace(cell, some=())]
        for some in cell.some:
            cells = [made for one in cells for made in self._with(one, some)]
        return cells

    def _with(self, cell: Objects, some: Some) -> Iterator[Objects]:
        plan = self.object(cell)
        for name in plan.names:
            if self._speaks_of(some, name):
                layer = Layer({name: some.goal})
                required = tuple(dict.fromkeys((*cell.required, name)))
                yield replace(cell, layers=(*cell.layers, layer), required=required)
        if plan.free:
            if cell.free_some or (plan.high or 0) > _MAX_PLACES:
                raise unsupported("the negation of this keyword beside others", some.where)
            yield replace(cell, free_some=(some,))

    def _speaks_of(self, some: Some, name: str) -> bool:
        if name in some.outside.named or any(
            self._texts.search.found(p, name) for p, _ in some.outside.patterns
        ):
            return False
        if some.pattern is not None and not self._texts.search.found(some.pattern, name):
            return False
        return not some.names or self._named(some.names, name, None)

    def _special(self, cell: Objects, plan_free: _Classes) -> _Classes:
        """The classes of names that the one of `free_some` may have."""
        if not cell.free_some:
            return ()
        (some,) = cell.free_some
        signs = [(pattern, False) for pattern, _ in some.outside.patterns]
        signs += [(some.pattern, True)] if some.pattern is not None else []
        kept = []
        for node, goal in plan_free:
            text = self._texts.without(node, some.outside.named)
            if some.names:
                cells = self._forms.of(some.names).strings
                names = [self._texts.content(one, free=False) for one in cells]
                text = self._texts.meet([text, self._texts.union(names)])
            for pattern, sign in signs:
                text = self._texts.having(text, pattern, sign)
            value = both(goal, some.goal)
            if value != NOTHING and self._texts.is_alive(text):
                kept.append((text, value))
        return tuple(kept)

    def object(self, cell: Objects) -> ObjectPlan:
        """The layout of one of `choices`."""
        plan = self._objects.get(cell)
        if plan is None:
            plan = self._objects[cell] = self._plan(cell)
        return plan

    def _plan(self, cell: Objects) -> ObjectPlan:
        names = [name for layer in cell.layers for name in layer.named]
        names += cell.required
        listed = self._listed_names(cell.names)
        if listed is not None:
            names += listed
        names = list(dict.fromkeys(names))
        if cell.names:
            allowed = None if listed is None else set(listed)
            goals = [
                self._value_goal(cell, name) if self._named(cell.names, name, allowed) else NOTHING
                for name in names
            ]
        elif len(cell.layers) == 1 and not cell.layers[0].patterns:
            layer = cell.layers[0]
            goals = [layer.named.get(name, layer.others) for name in names]
        else:
            goals = [self._value_goal(cell, name) for name in names]
        required = set(cell.required)
        free = () if listed is not None else tuple(self._free(cell, names))
        return ObjectPlan(
            tuple(names),
            tuple(goals),
            tuple(name in required for name in names),
            free,
            self._special(cell, free),
            bool(cell.free_some),
            cell.low,
            cell.high,
        )

    def _listed_names(self, goal: Goal) -> list[str] | None:
        """The only names that `goal` allows, where they are listed."""
        if not goal:
            return None
        cells = self._forms.of(goal).strings
        if any(cell.values is None for cell in cells):
            return None
        return [value for cell in cells for value in self._texts.values(cell)]

    def _named(self, goal: Goal, name: str, allowed: set[str] | None) -> bool:
        if allowed is not None:
            return name in allowed
        own = self._forms.child({"const": name}, "#", "")
        return any(self._texts.nonempty(cell) for cell in self._forms.of(both(goal, own)).strings)

    def _value_goal(self, cell: Objects, name: str) -> Goal:
        goal = ANYTHING
        for layer in cell.layers:
            covered = name in layer.named
            goal = both(goal, layer.named.get(name, ANYTHING))
            for pattern, value in layer.patterns:
                if self._texts.search.found(pattern, name):
                    goal, covered = both(goal, value), True
            if not covered:
                goal = both(goal, layer.others)
        return goal

    def _free(self, cell: Objects, names: list[str]) -> Iterator[tuple[Node, Goal]]:
        """Classes of names that are not declared, with the goals of their values."""
        patterns = list(dict.fromkeys(p for layer in cell.layers for p, _ in layer.patterns))
        if not patterns and any(layer.others == NOTHING for layer in cell.layers):
            return
        classes: list[tuple[Node, frozenset[str]]] = [(self._other_names(cell, names), frozenset())]
        for pattern in patterns:
            classes = [
                (text, met)
                for node, met_before in classes
                for text, met in self._texts.divided(node, pattern, met_before)
            ]
            if len(classes) > _MAX_CLASSES:
                raise ConstraintError("too many patternProperties overlap; write fewer patterns")
        by_goal: dict[Goal, list[Node]] = {}
        for node, met in classes:
            goal = self._class_goal(cell, met)
            if goal != NOTHING:
                by_goal.setdefault(goal, []).append(node)
        for goal, nodes in by_goal.items():
            text = self._texts.union(nodes)
            if self._texts.is_alive(text):
                yield text, goal

    def _other_names(self, cell: Objects, names: list[str]) -> Node:
        cells = self._forms.of(cell.names).strings
        text = self._texts.union([self._texts.content(one, free=False) for one in cells])
        return self._texts.without(text, names)

    @staticmethod
    def _class_goal(cell: Objects, met: frozenset[str]) -> Goal:
        goal = ANYTHING
        for layer in cell.layers:
            covered = False
            for pattern, value in layer.patterns:
                if pattern in met:
                    goal, covered = both(goal, value), True
            if not covered:
                goal = both(goal, layer.others)
        return goal

    # Arrays

    def items(self, cell: Arrays, index: int) -> list[tuple[Goal, tuple[int, ...]]]:
        """What item `index` may meet, each with which `contains` it counts for (0 or 1 each)."""
        goal = cell.item(index)
        active = [i for i, one in enumerate(cell.contains) if one.begin <= index]
        if len(active) > _MAX_CONTAINS:
            raise unsupported(f"more than {_MAX_CONTAINS} contains on one array", "")
        choices = []
        for flags in product((0, 1), repeat=len(active)):
            part, counted = goal, [0] * len(cell.contains)
            for i, flag in zip(active, flags, strict=True):
                one = cell.contains[i]
                counted[i] = flag
                if flag:
                    part = both(part, one.goal)
                elif one.high is not None:
                    part = both(part, Forms.negated(one.goal))
            if part != NOTHING:
                choices.append((part, tuple(counted)))
        return choices

    def distinct(self, cell: Arrays) -> DistinctItems | None:
        """How the items of `cell` differ; None where they need not, or are one at most."""
        if not cell.unique or (cell.high is not None and cell.high <= 1):
            return None
        if cell not in self._distinct:
            self._distinct[cell] = DistinctItems(cell, self._forms, self._texts)
        return self._distinct[cell]

    def last_index(self, cell: Arrays) -> int:
        """The first index from which on all items are alike."""
        return max([len(cell.prefix), *(one.begin for one in cell.contains)])
