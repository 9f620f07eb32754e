"""Arrays whose items differ, where an item is one of a few values or an integer."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from sgc_ir.automata.nodes import Node
from sgc_ir.automata.schema.cells import Arrays, Form, Goal, Numbers
from sgc_ir.automata.schema.forms import Forms
from sgc_ir.automata.schema.keywords import EndlessError, unsupported
from sgc_ir.automata.schema.numbers import NumberTexts
from sgc_ir.automata.schema.spelling import spelled
from sgc_ir.automata.schema.strings import StringTexts
from sgc_ir.errors import ConstraintError

_MOST = 256  # values of one item
_MAX_STATES = 20_000

Used = frozenset[str]


class DistinctItems:
    """The values that may still come after some items of one array cell.

    Raises:
        ConstraintError: the values of an item are neither few nor integers ("unsupported").
    """

    def __init__(
        self, cell: Arrays, forms: Forms, strings: StringTexts, numbers: NumberTexts
    ) -> None:
        if cell.contains:
            raise unsupported("uniqueItems beside contains", cell.unique)
        self._strings, self._numbers = strings, numbers
        self._low = cell.low
        self._most = math.inf if cell.high is None else cell.high
        goals = [*cell.prefix, *([cell.rest] if self._most > len(cell.prefix) else [])]
        forms_of = _forms_of(goals, forms, cell)
        listed = [listed_values(form, strings) for form in forms_of]
        self._open: Form | None = None  # items that are not listed: integers among them
        if None in listed:
            self._open = _open_form(forms_of[-1], cell)
            listed = [[]]
        found = [texts for texts in listed if texts is not None]
        self._prefix, self._rest = found[: len(cell.prefix)], found[len(cell.prefix) :]
        self._alive: dict[tuple[int, Used], bool] = {}

    def may_end(self, index: int) -> bool:
        return index >= self._low

    def choices(self, index: int, used: Used) -> list[str]:
        """Texts of item `index`, where they are listed, from which the array can be ended."""
        if index >= self._most or self._open is not None:
            return []
        texts = self._texts(index)
        return [t for t in texts if t not in used and self.alive(index + 1, used | {t})]

    def _texts(self, index: int) -> list[str]:
        if index < len(self._prefix):
            return self._prefix[index]
        return self._rest[0] if self._rest else []

    def open_text(self, index: int, used: Used) -> Node:
        """The texts of item `index` where they are not listed."""
        form = self._open
        if form is None or index >= self._most:
            return self._strings.union([])
        listed = listed_values(replace(form, numbers=()), self._strings) or []
        listed += [t for cell in form.numbers if cell.values for t in _listed_numbers(cell) or ()]
        cells = [cell for cell in form.numbers if cell.values is None]
        texts = [self._numbers.text(cell) for cell in cells]
        return self._strings.either(listed, texts, used)

    def endless(self, index: int) -> bool:
        """Whether item `index` is there for any number of items before it."""
        cells = self._open.numbers if self._open is not None and index < self._most else ()
        return any(c.values is None and (c.low is None or c.high is None) for c in cells)

    def alive(self, index: int, used: Used) -> bool:
        """Whether the array can be ended behind these items."""
        if self.may_end(index) or self._open is not None:
            return True
        if index >= len(self._prefix):
            return len(set(self._texts(index)) - used) >= self._low - index
        key = (index, used)
        if key not in self._alive:
            if len(self._alive) > _MAX_STATES:
                raise ConstraintError("uniqueItems has too many cases; shorten prefixItems")
            self._alive[key] = bool(self.choices(index, used))
        return self._alive[key]


def _forms_of(goals: list[Goal], forms: Forms, cell: Arrays) -> list[Form]:
    try:
        return [forms.of(goal) for goal in goals]
    except EndlessError:
        if not forms.busy:
            raise
        # Whether branches around the array exclude one another is asked before they are known.
        raise unsupported("uniqueItems on items that hold the array again", cell.unique) from None


def _open_form(form: Form, cell: Arrays) -> Form:
    """`form`, of which every value but integers is listed, and there are enough of these."""
    numbers = [one for one in form.numbers if one.values is None]
    others = replace(form, numbers=())
    plain = not (form.arrays or form.objects) and all(s.values is not None for s in others.strings)
    integral = all(one.integral and _at_least(one, cell.low) for one in numbers)
    if cell.prefix or not plain or not integral or not numbers:
        raise unsupported("uniqueItems on items of more than a few values", cell.unique)
    return form


def _at_least(cell: Numbers, count: int) -> bool:
    """Whether a range holds `count` multiples, those that are excluded not counted."""
    if cell.no_steps:
        return False
    if cell.low is None or cell.high is None:
        return True
    return (cell.high - cell.low) / (cell.step or 1) - 2 - len(cell.excluded) >= count


def listed_values(form: Form, strings: StringTexts) -> list[str] | None:
    """The values of `form` as JSON texts, one each; None where they are not a few scalars."""
    if form.arrays or form.objects:
        return None
    texts = ["null"] if form.null else []
    texts += [word for word, value in (("true", True), ("false", False)) if value in form.booleans]
    for cell in form.numbers:
        numbers = _listed_numbers(cell)
        if numbers is None:
            return None
        texts += numbers
    for string in form.strings:
        if string.values is None:
            return None
        texts += [f'"{spelled(value)}"' for value in strings.values(string)]
    texts = list(dict.fromkeys(texts))
    return texts if len(texts) <= _MOST else None


def _listed_numbers(cell: Numbers) -> list[str] | None:
    if cell.values is not None:
        return [
            str(value.numerator) if value.denominator == 1 else written
            for value, written in cell.values
        ]
    if not cell.integral or cell.low is None or cell.high is None:
        return None
    low, high = math.ceil(cell.low), math.floor(cell.high)
    if high - low > 64 * _MOST:
        return None
    return [str(n) for n in range(low, high + 1) if cell.holds(Fraction(n))]
