"""From goals to forms: every keyword as what it allows by type, and as what its negation allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from sgc_ir.automata.pool import Pool
from sgc_ir.automata.schema import containers, scalars
from sgc_ir.automata.schema.cells import (
    ALL,
    NONE,
    NOTHING,
    Form,
    Goal,
    Objects,
    all_of,
    any_of,
    both,
)
from sgc_ir.automata.schema.containers import Containers
from sgc_ir.automata.schema.document import Document, below
from sgc_ir.automata.schema.keywords import (
    GROUPS,
    EndlessError,
    is_annotation,
    listing,
    malformed,
    mapping,
    names,
    text,
    unsupported,
)
from sgc_ir.errors import ConstraintError

Place = tuple[dict[str, Any], str, str]  # a schema, its pointer, its base URI


class Forms:
    """The forms of the goals of one document, each made once.

    Args:
        document: where the schemas are.
        pool: bounds the time, and the nesting of schemas that apply to one value.
        overlap: whether two forms are not shown to have no value in common.
    """

    def __init__(
        self, document: Document, pool: Pool, overlap: Callable[[Form, Form], bool]
    ) -> None:
        self.document = document
        self.pool = pool
        self._overlap = overlap
        self._goals: dict[Goal, Form] = {}
        self._atoms: dict[tuple[int, bool], Form | None] = {}
        self._depth = 0
        self.containers = Containers(self)

    def of(self, goal: Goal) -> Form:
        """What meets `goal`."""
        found = self._goals.get(goal)
        if found is None:
            found = NONE if goal == NOTHING else ALL
            for number, sign in sorted(goal):
                if found.nothing:
                    break
                found = all_of(found, self._atom(number, sign))
            self._goals[goal] = found
        return found

    def where(self, goal: Goal) -> str:
        """The pointer of a schema that `goal` speaks of."""
        return min((self.document.schema(number)[1] for number, _ in goal), key=len, default="#")

    @property
    def busy(self) -> bool:
        """Whether a form is being made: those of the schemas around it are not known yet."""
        return self._depth > 0

    def child(self, schema: Any, where: str, base: str) -> Goal:
        """The goal to meet a schema that stands at `where`."""
        return self.document.goal(schema, where, base)

    @staticmethod
    def negated(goal: Goal) -> Goal:
        """The goal not to meet the one schema of `goal`."""
        if not goal:
            return NOTHING
        if goal == NOTHING:
            return frozenset()
        ((number, sign),) = goal
        return frozenset({(number, not sign)})

    def _atom(self, number: int, sign: bool) -> Form:
        key = (number, sign)
        if key in self._atoms:
            found = self._atoms[key]
            if found is None:
                where = self.document.schema(number)[1]
                raise EndlessError(where)
            return found
        self._atoms[key] = None
        self._depth += 1
        self.pool.tick(8)
        try:
            if self._depth > self.pool.limits.depth:
                raise ConstraintError(
                    f"more than {self.pool.limits.depth} schemas apply to one value; flatten them",
                    where=self.document.schema(number)[1],
                )
            made = self._make(self.document.schema(number), sign)
        finally:
            self._depth -= 1
            if self._atoms[key] is None:
                del self._atoms[key]
        self._atoms[key] = made
        return made

    def _make(self, place: Place, sign: bool) -> Form:
        if sign:
            form = ALL
            for part in self._parts(place, sign):
                form = all_of(form, part)
                self.pool.tick(len(form.objects) + len(form.arrays))
                if form.nothing and self._checked(place):
                    break
            return form
        return any_of(self._parts(place, sign))

    def _checked(self, place: Place) -> bool:
        """Refuse unknown keywords also where the others leave nothing."""
        alone = self.document.lone_references and "$ref" in place[0]
        for word in () if alone else place[0]:
            if not is_annotation(word, place[0]) and _handler(word) is None:
                raise unsupported(f"the keyword {word!r}", below(place[1], word))
        return True

    def _parts(self, place: Place, sign: bool) -> Iterator[Form]:
        schema, where, _ = place
        seen: set[str] = set()
        alone = self.document.lone_references and "$ref" in schema
        for word in ("$ref",) if alone else schema:
            if is_annotation(word, schema):
                continue
            name = GROUPS.get(word, word)
            if name in seen:
                continue
            seen.add(name)
            handler = _handler(word)
            if handler is None:
                raise unsupported(f"the keyword {word!r}", below(where, word))
            yield handler(self, place, sign)

    def definitions(self, place: Place, sign: bool) -> Form:
        """Schemas that others refer to; they say nothing of the value."""
        schema, where, _ = place
        for word in ("$defs", "definitions"):
            for name, value in mapping(schema.get(word, {}), below(where, word)).items():
                if not isinstance(value, dict | bool):
                    raise malformed(
                        "a schema is an object, true or false", below(where, word, name)
                    )
        return ALL if sign else NONE

    # Schemas that apply to the same value

    def subform(self, schema: Any, where: str, base: str, sign: bool) -> Form:
        goal = self.child(schema, where, base)
        return self.of(goal if sign else self.negated(goal))

    def reference(self, place: Place, sign: bool) -> Form:
        schema, where, base = place
        at = below(where, "$ref")
        return self.subform(*self.document.resolve(text(schema["$ref"], at), at, base), sign)

    def dynamic_reference(self, place: Place, sign: bool) -> Form:
        schema, where, base = place
        at = below(where, "$dynamicRef")
        found = self.document.resolve_dynamic(text(schema["$dynamicRef"], at), at, base)
        return self.subform(*found, sign)

    def all_of(self, place: Place, sign: bool) -> Form:
        forms = self._branches(place, "allOf", sign)
        return _intersection(forms) if sign else any_of(forms)

    def any_of(self, place: Place, sign: bool) -> Form:
        forms = self._branches(place, "anyOf", sign)
        return any_of(forms) if sign else _intersection(forms)

    def _branches(self, place: Place, word: str, sign: bool) -> Iterator[Form]:
        schema, where, base = place
        for i, branch in enumerate(listing(schema[word], below(where, word))):
            yield self.subform(branch, below(where, word, i), base, sign)

    def one_of(self, place: Place, sign: bool) -> Form:
        schema, where, base = place
        branches = listing(schema["oneOf"], below(where, "oneOf"))
        goals = [self.child(b, below(where, "oneOf", i), base) for i, b in enumerate(branches)]
        forms = [self.of(goal) for goal in goals]
        pairs = [
            (i, j) for i in range(len(goals)) for j in range(i) if self._overlap(forms[i], forms[j])
        ]
        try:
            if sign:
                return any_of(
                    self._without(goals, i, {a + b - i for a, b in pairs if i in (a, b)})
                    for i in range(len(goals))
                )
            none = _intersection(self.of(self.negated(goal)) for goal in goals)
            return any_of([none, *(self.of(both(goals[i], goals[j])) for i, j in pairs)])
        except ConstraintError as error:
            if error.kind != "unsupported":
                raise
            raise ConstraintError(
                f"branches of oneOf overlap, or are not shown not to ({error.where}: "
                f"{error.reason}); add a property with different constants, or use anyOf",
                kind="unsupported",
                where=below(where, "oneOf"),
            ) from error

    def _without(self, goals: list[Goal], index: int, others: set[int]) -> Form:
        goal = goals[index]
        for other in sorted(others):
            goal = both(goal, self.negated(goals[other]))
        return self.of(goal)

    def negation(self, place: Place, sign: bool) -> Form:
        schema, where, base = place
        return self.subform(schema["not"], below(where, "not"), base, not sign)

    def condition(self, place: Place, sign: bool) -> Form:
        schema, where, base = place
        if "if" not in schema or not {"then", "else"} & set(schema):
            return ALL if sign else NONE
        test = self.child(schema["if"], below(where, "if"), base)
        forms = []
        for word, holds in (("then", True), ("else", False)):
            goal = self.child(schema.get(word, True), below(where, word), base)
            case = test if holds else self.negated(test)
            forms.append(self.of(both(case, goal if sign else self.negated(goal))))
        return any_of(forms)

    # Members that depend on others

    def dependent(self, place: Place, sign: bool) -> Form:
        schema, where, base = place
        form = ALL if sign else NONE
        for word in ("dependentRequired", "dependentSchemas", "dependencies"):
            for name, value in mapping(schema.get(word, {}), below(where, word)).items():
                spot = below(where, word, name)
                if isinstance(value, list):
                    value = {"type": "object", "required": names(value, spot)}
                case = self._dependency(name, value, (spot, base), sign)
                form = all_of(form, case) if sign else any_of([form, case])
        return form

    def _dependency(self, name: str, value: Any, spot: tuple[str, str], sign: bool) -> Form:
        has = Form(objects=(Objects(required=(name,)),))
        then = all_of(has, self.subform(value, *spot, sign))
        if not sign:
            return then
        absent = Objects(layers=(self.containers.absent(name),))
        return any_of([replace(ALL, objects=(absent,)), then])


def _intersection(forms: Iterator[Form]) -> Form:
    form = ALL
    for part in forms:
        form = all_of(form, part)
    return form


Handler = Callable[[Forms, Place, bool], Form]


def _container(name: str) -> Handler:
    function = containers.HANDLERS[name]
    return lambda forms, place, sign: function(forms.containers, place, sign)


def _scalar(word: str) -> Handler:
    function = scalars.HANDLERS[word]

    def handler(forms: Forms, place: Place, sign: bool) -> Form:
        if word in scalars.EXCLUSIVE:
            scalars.check_exclusive(word, place[0], below(place[1], word), forms.document)
        return function(place[0], below(place[1], word), sign)

    return handler


_HANDLERS: dict[str, Handler] = {
    "$ref": Forms.reference,
    "$dynamicRef": Forms.dynamic_reference,
    "allOf": Forms.all_of,
    "anyOf": Forms.any_of,
    "oneOf": Forms.one_of,
    "not": Forms.negation,
    "condition": Forms.condition,
    "definitions": Forms.definitions,
    "dependent": Forms.dependent,
    **{name: _container(name) for name in containers.HANDLERS},
    "pattern": lambda forms, place, sign: scalars.pattern_form(
        place[0], below(place[1], "pattern"), sign, forms.pool
    ),
    **{word: _scalar(word) for word in scalars.HANDLERS},
}


def _handler(word: str) -> Handler | None:
    return _HANDLERS.get(GROUPS.get(word, word))
