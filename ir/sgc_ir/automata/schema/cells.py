"""What a schema allows, sorted by JSON type: for each type a choice of cells.

A cell is one conjunction of restrictions on values of one type. Schemas below it (of members and
items) are goals: sets of schemas, each to be met or not to be met. So the intersection of two cells
unites goals and needs no look into them, and recursion through `allOf` stays finite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import gcd, lcm
from typing import TypeVar

from sgc_ir.errors import ConstraintError

Goal = frozenset[tuple[int, bool]]  # (number of a schema, whether it is to be met)

ANYTHING: Goal = frozenset()
NOTHING: Goal = frozenset({(-1, True)})  # the schema `false`
_MAX_CELLS = 2048


def both(first: Goal, second: Goal) -> Goal:
    """What meets both goals."""
    if first is NOTHING or second is NOTHING:
        return NOTHING
    if not first or not second:
        return first or second
    joined = first | second
    return NOTHING if any((number, not sign) in joined for number, sign in joined) else joined


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers of a range.

    Attributes:
        low, high: bounds; `low_open`, `high_open`: whether they are excluded.
        step: the number is a multiple of it.
        integral: the number is written without a fraction.
        values: the only numbers, each with a spelling, or None.
        excluded, no_steps: numbers that it is not, and that it is no multiple of.
    """

    low: Fraction | None = None
    high: Fraction | None = None
    low_open: bool = False
    high_open: bool = False
    step: Fraction | None = None
    integral: bool = False
    values: tuple[tuple[Fraction, str], ...] | None = None
    excluded: frozenset[Fraction] = frozenset()
    no_steps: frozenset[Fraction] = frozenset()

    def holds(self, value: Fraction) -> bool:
        """Whether `value` is allowed, `values` left aside."""
        if self.low is not None and (value < self.low or (self.low_open and value == self.low)):
            return False
        if self.high is not None and (value > self.high or (self.high_open and value == self.high)):
            return False
        if self.step is not None and value % self.step != 0:
            return False
        return value not in self.excluded and all(value % step for step in self.no_steps)


@dataclass(frozen=True, slots=True)
class Strings:
    """Strings by length, patterns (each met or not met), formats, or a list of values."""

    low: int = 0
    high: int | None = None
    patterns: frozenset[tuple[str, bool]] = frozenset()
    formats: frozenset[str] = frozenset()
    values: tuple[str, ...] | None = None
    excluded: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Contains:
    """Between `low` and `high` items from number `begin` on meet `goal`."""

    goal: Goal
    low: int
    high: int | None
    begin: int = 0


@dataclass(frozen=True, slots=True)
class Arrays:
    """Arrays by their first items, the other items, and their number.

    Attributes:
        unique: pointer of the keyword that wants the items to differ, or "".
    """

    prefix: tuple[Goal, ...] = ()
    rest: Goal = ANYTHING
    low: int = 0
    high: int | None = None
    contains: tuple[Contains, ...] = ()
    unique: str = ""

    def item(self, index: int) -> Goal:
        return self.prefix[index] if index < len(self.prefix) else self.rest


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """What one schema says about members: by name, by pattern of the name, and all others."""

    named: Mapping[str, Goal] = field(default_factory=dict)
    patterns: tuple[tuple[str, Goal], ...] = ()
    others: Goal = ANYTHING


@dataclass(frozen=True, slots=True, eq=False)
class Some:
    """Some member has a name of a kind and a value that meets `goal`.

    Attributes:
        outside: the name is not one that this layer speaks of.
        pattern: the name has it, where it is not None.
        names: what the name meets.
        where: pointer of the keyword that is negated so.
    """

    goal: Goal
    where: str
    outside: Layer = field(default_factory=Layer)
    pattern: str | None = None
    names: Goal = ANYTHING


@dataclass(frozen=True, slots=True)
class Objects:
    """Objects by layers of members, required names, number of members and a goal for names.

    Attributes:
        some: members that there have to be.
        free_some: those of them that have a name that is not declared.
    """

    layers: tuple[Layer, ...] = ()
    required: tuple[str, ...] = ()
    low: int = 0
    high: int | None = None
    names: Goal = ANYTHING
    some: tuple[Some, ...] = ()
    free_some: tuple[Some, ...] = ()


@dataclass(frozen=True, slots=True)
class Form:
    """The values that a goal allows; a type without cells is not allowed."""

    null: bool = False
    booleans: frozenset[bool] = frozenset()
    numbers: tuple[Numbers, ...] = ()
    strings: tuple[Strings, ...] = ()
    arrays: tuple[Arrays, ...] = ()
    objects: tuple[Objects, ...] = ()

    @property
    def nothing(self) -> bool:
        """Whether no type is left."""
        scalars = self.null or self.booleans or self.numbers or self.strings
        return not (scalars or self.arrays or self.objects)


NONE = Form()
ALL = Form(True, frozenset({False, True}), (Numbers(),), (Strings(),), (Arrays(),), (Objects(),))

_Cell = TypeVar("_Cell", Numbers, Strings, Arrays, Objects)


def any_of(forms: Iterable[Form]) -> Form:
    """What any of `forms` allows."""
    kept = [form for form in forms if not form.nothing]
    if len(kept) <= 1:
        return kept[0] if kept else NONE
    return Form(
        any(form.null for form in kept),
        frozenset().union(*(form.booleans for form in kept)),
        _distinct(cell for form in kept for cell in form.numbers),
        _distinct(cell for form in kept for cell in form.strings),
        _distinct(cell for form in kept for cell in form.arrays),
        _distinct(cell for form in kept for cell in form.objects),
    )


def _distinct(cells: Iterable[_Cell]) -> tuple[_Cell, ...]:
    return _bounded(tuple(dict.fromkeys(cells)))


def _bounded(cells: tuple[_Cell, ...]) -> tuple[_Cell, ...]:
    if len(cells) > _MAX_CELLS:
        raise ConstraintError(
            f"the combinations of alternatives are more than {_MAX_CELLS}; "
            "write fewer of them beside one another"
        )
    return cells


def all_of(first: Form, second: Form) -> Form:
    """What both forms allow."""
    if first is ALL or second is ALL:
        return second if first is ALL else first
    return Form(
        first.null and second.null,
        first.booleans & second.booleans,
        _product(first.numbers, second.numbers, ALL.numbers, meet_numbers),
        _product(first.strings, second.strings, ALL.strings, meet_strings),
        _product(first.arrays, second.arrays, ALL.arrays, meet_arrays),
        _product(first.objects, second.objects, ALL.objects, meet_objects),
    )


def _product(
    first: tuple[_Cell, ...],
    second: tuple[_Cell, ...],
    everything: tuple[_Cell, ...],
    meet: Callable[[_Cell, _Cell], _Cell | None],
) -> tuple[_Cell, ...]:
    if first is everything or second is everything:
        return second if first is everything else first
    if len(first) * len(second) > 8 * _MAX_CELLS:
        raise ConstraintError("too many alternatives are combined; write fewer of them")
    found = (meet(one, other) for one in first for other in second)
    return _distinct(cell for cell in found if cell is not None)


def _highest(first: int | None, second: int | None) -> int | None:
    if first is None or second is None:
        return second if first is None else first
    return min(first, second)


def _lower_bound(a: Numbers, b: Numbers) -> tuple[Fraction | None, bool]:
    if a.low is None or b.low is None:
        return (b.low, b.low_open) if a.low is None else (a.low, a.low_open)
    return max((a.low, a.low_open), (b.low, b.low_open))


def _upper_bound(a: Numbers, b: Numbers) -> tuple[Fraction | None, bool]:
    if a.high is None or b.high is None:
        return (b.high, b.high_open) if a.high is None else (a.high, a.high_open)
    high, closed = min((a.high, not a.high_open), (b.high, not b.high_open))
    return high, not closed


def _common_step(a: Fraction | None, b: Fraction | None) -> Fraction | None:
    if a is None or b is None:
        return b if a is None else a
    return Fraction(lcm(a.numerator, b.numerator), gcd(a.denominator, b.denominator))


def meet_numbers(a: Numbers, b: Numbers) -> Numbers | None:
    """The numbers of both; None where they are shown to be none."""
    low, low_open = _lower_bound(a, b)
    high, high_open = _upper_bound(a, b)
    cell = Numbers(
        low,
        high,
        low_open,
        high_open,
        _common_step(a.step, b.step),
        a.integral or b.integral,
        None,
        a.excluded | b.excluded,
        a.no_steps | b.no_steps,
    )
    if a.values is None and b.values is None:
        return None if empty_range(cell) else cell
    values = a.values if a.values is not None else b.values
    assert values is not None
    if a.values is not None and b.values is not None:
        others = {value for value, _ in b.values}
        values = tuple(pair for pair in a.values if pair[0] in others)
    values = tuple(pair for pair in values if cell.holds(pair[0]))
    return replace(Numbers(integral=cell.integral), values=values) if values else None


def empty_range(cell: Numbers) -> bool:
    """Whether no number is between the bounds (`values` and what is excluded left aside)."""
    if cell.low is None or cell.high is None:
        return False
    if cell.low == cell.high:
        return cell.low_open or cell.high_open or not cell.holds(cell.low)
    if cell.low > cell.high:
        return True
    if cell.step is None:
        return False
    first = -(-cell.low // cell.step) * cell.step
    if cell.low_open and first == cell.low:
        first += cell.step
    return first > cell.high or (cell.high_open and first == cell.high)


def meet_strings(a: Strings, b: Strings) -> Strings | None:
    """The strings of both; None where they are shown to be none."""
    values = a.values if b.values is None else b.values
    if a.values is not None and b.values is not None:
        others = set(b.values)
        values = tuple(value for value in a.values if value in others)
    cell = Strings(
        max(a.low, b.low),
        _highest(a.high, b.high),
        a.patterns | b.patterns,
        a.formats | b.formats,
        values,
        a.excluded | b.excluded,
    )
    if values is not None:
        kept = tuple(value for value in values if _fits(cell, value))
        return replace(cell, values=kept) if kept else None
    if cell.high is not None and cell.low > cell.high:
        return None
    contradictory = any((pattern, not sign) in cell.patterns for pattern, sign in cell.patterns)
    return None if contradictory else cell


def _fits(cell: Strings, value: str) -> bool:
    """Whether `value` meets the lengths and exclusions (patterns are asked when it is written)."""
    long_enough = cell.low <= len(value) and (cell.high is None or len(value) <= cell.high)
    return long_enough and value not in cell.excluded


def meet_arrays(a: Arrays, b: Arrays) -> Arrays | None:
    """The arrays of both; None where they are shown to be none."""
    length = max(len(a.prefix), len(b.prefix))
    high = _highest(a.high, b.high)
    low = max(a.low, b.low)
    if high is not None and low > high:
        return None
    return Arrays(
        tuple(both(a.item(i), b.item(i)) for i in range(length)),
        both(a.rest, b.rest),
        low,
        high,
        tuple(dict.fromkeys(a.contains + b.contains)),
        a.unique or b.unique,
    )


def meet_objects(a: Objects, b: Objects) -> Objects | None:
    """The objects of both; None where they are shown to be none."""
    high = _highest(a.high, b.high)
    low = max(a.low, b.low)
    if high is not None and low > high:
        return None
    return Objects(
        tuple(dict.fromkeys(a.layers + b.layers)),
        tuple(dict.fromkeys(a.required + b.required)),
        low,
        high,
        both(a.names, b.names),
        tuple(dict.fromkeys(a.some + b.some)),
    )
