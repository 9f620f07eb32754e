"""Keywords about members, items and constants: what each allows, and what its negation allows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sgc_ir.automata.schema.cells import (
    ALL,
    ANYTHING,
    NONE,
    NOTHING,
    Arrays,
    Contains,
    Form,
    Goal,
    Layer,
    Numbers,
    Objects,
    Some,
    Strings,
    all_of,
    any_of,
)
from sgc_ir.automata.schema.document import below
from sgc_ir.automata.schema.keywords import (
    count,
    exact,
    listing,
    malformed,
    mapping,
    names,
    unsupported,
)
from sgc_ir.automata.schema.scalars import readable

if TYPE_CHECKING:
    from sgc_ir.automata.schema.forms import Forms, Place


def _arrays(cells: Iterable[Arrays], sign: bool) -> Form:
    return replace(ALL, arrays=tuple(cells)) if sign else Form(arrays=tuple(cells))


def _objects(cells: Iterable[Objects], sign: bool) -> Form:
    return replace(ALL, objects=tuple(cells)) if sign else Form(objects=tuple(cells))


class Containers:
    """Makes the forms of one document's keywords about arrays and objects."""

    def __init__(self, forms: Forms) -> None:
        self._forms = forms
        self._absent: dict[str, Layer] = {}

    def absent(self, name: str) -> Layer:
        """A layer under which there is no member `name`."""
        return self._absent.setdefault(name, Layer({name: NOTHING}))

    # Constants

    def const(self, place: Place, sign: bool) -> Form:
        return self._values([place[0]["const"]], below(place[1], "const"), sign)

    def enum(self, place: Place, sign: bool) -> Form:
        where = below(place[1], "enum")
        return self._values(listing(place[0]["enum"], where), where, sign)

    def _values(self, values: list[Any], where: str, sign: bool) -> Form:
        scalars = self._scalars([v for v in values if not isinstance(v, list | dict)], where, sign)
        cases = (self._case(value, where, sign) for value in values)
        if sign:
            return any_of([scalars, *(case for case in cases if case is not None)])
        form = replace(scalars, arrays=ALL.arrays, objects=ALL.objects)
        for case in cases:
            form = form if case is None else all_of(form, case)
        return form

    def _case(self, value: Any, where: str, sign: bool) -> Form | None:
        """The form of one array or object; None for other values."""
        if isinstance(value, list):
            return self._array(value, where, sign)
        return self._object(value, where, sign) if isinstance(value, dict) else None

    def _scalars(self, values: list[Any], where: str, sign: bool) -> Form:
        strings = dict.fromkeys(v for v in values if isinstance(v, str))
        numbers = {
            exact(v, where): repr(v)
            for v in values
            if isinstance(v, int | float) and not isinstance(v, bool)
        }
        booleans = frozenset(v for v in values if isinstance(v, bool))
        if sign:
            return Form(
                any(v is None for v in values),
                booleans,
                (Numbers(values=tuple(numbers.items())),) if numbers else (),
                (Strings(values=tuple(strings)),) if strings else (),
            )
        return Form(
            not any(v is None for v in values),
            ALL.booleans - booleans,
            (Numbers(excluded=frozenset(numbers)),),
            (Strings(excluded=frozenset(strings)),),
        )

    def _constant(self, value: Any, where: str) -> Goal:
        return self._forms.child({"const": value}, where, "")

    def _array(self, value: list[Any], where: str, sign: bool) -> Form:
        goals = tuple(self._constant(item, where) for item in value)
        size = len(value)
        if sign:
            return Form(arrays=(Arrays(goals, NOTHING, size, size),))
        cells = [Arrays(low=size + 1)] + ([Arrays(high=size - 1)] if size else [])
        for i, goal in enumerate(goals):
            cells.append(Arrays((ANYTHING,) * i + (self._forms.negated(goal),), low=i + 1))
        return replace(ALL, arrays=tuple(cells))

    def _object(self, value: dict[str, Any], where: str, sign: bool) -> Form:
        goals = {name: self._constant(member, where) for name, member in value.items()}
        size = len(value)
        if sign:
            layer = Layer(goals, others=NOTHING)
            return Form(objects=(Objects((layer,), tuple(goals), size, size),))
        cells = [Objects(low=size + 1)]
        for name, goal in goals.items():
            cells.append(Objects((self.absent(name),)))
            cells.append(Objects((Layer({name: self._forms.negated(goal)}),), (name,)))
        return replace(ALL, objects=tuple(cells))

    # Members

    def members(self, place: Place, sign: bool) -> Form:
        schema, where, base = place
        child = self._forms.child
        named = {
            name: child(value, below(where, "properties", name), base)
            for name, value in mapping(
                schema.get("properties", {}), below(where, "properties")
            ).items()
        }
        given = mapping(schema.get("patternProperties", {}), below(where, "patternProperties"))
        places = [below(where, "patternProperties", pattern) for pattern in given]
        patterns = tuple(
            (readable(pattern, place, self._forms.pool), child(value, place, base))
            for (pattern, value), place in zip(given.items(), places, strict=True)
        )
        others = child(
            schema.get("additionalProperties", True), below(where, "additionalProperties"), base
        )
        if sign:
            return _objects([Objects((Layer(named, patterns, others),))], sign)
        return self._no_members(Layer(named, patterns, others), places, where)

    def _no_members(self, layer: Layer, places: list[str], at: str) -> Form:
        """The negation of `layer`, whose patterns stand at `places`."""
        negated = self._forms.negated
        cells = [
            Objects((Layer({name: negated(goal)}),), (name,))
            for name, goal in layer.named.items()
            if goal
        ]
        for (pattern, goal), place in zip(layer.patterns, places, strict=True):
            if goal:
                cells.append(Objects(some=(Some(negated(goal), place, pattern=pattern),)))
        if layer.others:
            where = below(at, "additionalProperties")
            outside = Layer(layer.named, layer.patterns)
            cells.append(Objects(some=(Some(negated(layer.others), where, outside),)))
        return _objects(cells, False)

    def required(self, place: Place, sign: bool) -> Form:
        needed = names(place[0]["required"], below(place[1], "required"))
        if sign:
            return _objects([Objects(required=tuple(dict.fromkeys(needed)))], sign)
        return _objects([Objects((self.absent(name),)) for name in dict.fromkeys(needed)], sign)

    def min_properties(self, place: Place, sign: bool) -> Form:
        size = count(place[0]["minProperties"], below(place[1], "minProperties"))
        return self._sizes(size, sign) if sign else self._sizes(None, sign, size - 1)

    def max_properties(self, place: Place, sign: bool) -> Form:
        size = count(place[0]["maxProperties"], below(place[1], "maxProperties"))
        return self._sizes(None, sign, size) if sign else self._sizes(size + 1, sign)

    @staticmethod
    def _sizes(low: int | None, sign: bool, high: int | None = None) -> Form:
        if high is not None and high < 0:
            return NONE
        return _objects([Objects(low=low or 0, high=high)], sign)

    def property_names(self, place: Place, sign: bool) -> Form:
        where = below(place[1], "propertyNames")
        goal = self._forms.child(place[0]["propertyNames"], where, place[2])
        if sign:
            return _objects([Objects(names=goal)], sign)
        if not goal:
            return NONE
        some = Some(ANYTHING, where, names=self._forms.negated(goal))
        return _objects([Objects(some=(some,))], sign)

    # Items

    def elements(self, place: Place, sign: bool) -> Form:
        schema, where, base = place
        child = self._forms.child
        word = "items" if isinstance(schema.get("items"), list) else "prefixItems"
        rest_word = "additionalItems" if word == "items" else "items"
        prefix = tuple(
            child(value, below(where, word, i), base)
            for i, value in enumerate(listing(schema.get(word, []), below(where, word)))
        )
        rest = child(schema.get(rest_word, True), below(where, rest_word), base)
        if sign:
            return _arrays([Arrays(prefix, rest)], sign)
        negated = self._forms.negated
        cells = [
            Arrays((ANYTHING,) * i + (negated(goal),), low=i + 1)
            for i, goal in enumerate(prefix)
            if goal
        ]
        if rest:
            cells.append(Arrays(contains=(Contains(negated(rest), 1, None, len(prefix)),)))
        return _arrays(cells, sign)

    def contains(self, place: Place, sign: bool) -> Form:
        schema, where, base = place
        if "contains" not in schema:
            return ALL if sign else NONE
        goal = self._forms.child(schema["contains"], below(where, "contains"), base)
        low = count(schema.get("minContains", 1), below(where, "minContains"))
        high = None
        if "maxContains" in schema:
            high = count(schema["maxContains"], below(where, "maxContains"))
        if sign:
            if high is not None and high < low:
                return replace(ALL, arrays=())
            plain = low == 0 and high is None
            return ALL if plain else _arrays([Arrays(contains=(Contains(goal, low, high),))], sign)
        cells = [Arrays(contains=(Contains(goal, 0, low - 1),))] if low else []
        if high is not None:
            cells.append(Arrays(contains=(Contains(goal, high + 1, None),)))
        return _arrays(cells, sign)

    def min_items(self, place: Place, sign: bool) -> Form:
        size = count(place[0]["minItems"], below(place[1], "minItems"))
        if sign:
            return _arrays([Arrays(low=size)], sign)
        return _arrays([Arrays(high=size - 1)] if size else [], sign)

    def max_items(self, place: Place, sign: bool) -> Form:
        size = count(place[0]["maxItems"], below(place[1], "maxItems"))
        return _arrays([Arrays(high=size) if sign else Arrays(low=size + 1)], sign)

    def unique_items(self, place: Place, sign: bool) -> Form:
        where = below(place[1], "uniqueItems")
        value = place[0]["uniqueItems"]
        if not isinstance(value, bool):
            raise malformed("expected true or false", where)
        if not value:
            return ALL if sign else NONE
        if not sign:
            raise unsupported("the negation of uniqueItems", where)
        return _arrays([Arrays(unique=where)], sign)


# By keyword, or by the group of keywords (`keywords.GROUPS`).
HANDLERS: dict[str, Callable[[Containers, Place, bool], Form]] = {
    "const": Containers.const,
    "enum": Containers.enum,
    "members": Containers.members,
    "required": Containers.required,
    "minProperties": Containers.min_properties,
    "maxProperties": Containers.max_properties,
    "propertyNames": Containers.property_names,
    "elements": Containers.elements,
    "contains": Containers.contains,
    "minItems": Containers.min_items,
    "maxItems": Containers.max_items,
    "uniqueItems": Containers.unique_items,
}
