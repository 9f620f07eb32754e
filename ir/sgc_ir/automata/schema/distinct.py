"""Arrays whose items differ from one another, where each item has few possible values."""

from __future__ import annotations

import math
from fractions import Fraction

from sgc_ir.automata.schema.cells import Arrays, Form, Goal, Numbers
from sgc_ir.automata.schema.forms import Forms
from sgc_ir.automata.schema.keywords import unsupported
from sgc_ir.automata.schema.spelling import spelled
from sgc_ir.automata.schema.strings import StringTexts
from sgc_ir.errors import ConstraintError

_MOST = 256  # values of one item
_MAX_STATES = 20_000

Used = frozenset[str]


class DistinctItems:
    """The values that may still come after some items of one array cell.

    Raises:
        ConstraintError: the values of an item cannot be listed ("unsupported").
    """

    def __init__(self, cell: Arrays, forms: Forms, strings: StringTexts) -> None:
        if cell.contains:
            raise unsupported("uniqueItems beside contains", cell.unique)
        self._low = cell.low
        self._most = math.inf if cell.high is None else cell.high
        self._prefix = [self._listed(goal, cell, forms, strings) for goal in cell.prefix]
        needs_rest = self._most > len(cell.prefix)
        self._rest = self._listed(cell.rest, cell, forms, strings) if needs_rest else []
        self._alive: dict[tuple[int, Used], bool] = {}

    @staticmethod
    def _listed(goal: Goal, cell: Arrays, forms: Forms, strings: StringTexts) -> list[str]:
        found = listed_values(forms.of(goal), strings)
        if found is None:
            raise unsupported("uniqueItems on items of more than a few values", cell.unique)
        return found

    def may_end(self, index: int) -> bool:
        return index >= self._low

    def choices(self, index: int, used: Used) -> list[str]:
        """Texts of item `index` from which the array can be ended."""
        if index >= self._most:
            return []
        texts = self._prefix[index] if index < len(self._prefix) else self._rest
        return [t for t in texts if t not in used and self.alive(index + 1, used | {t})]

    def alive(self, index: int, used: Used) -> bool:
        """Whether the array can be ended behind these items."""
        if self.may_end(index):
            return True
        if index >= len(self._prefix):
            return len(set(self._rest) - used) >= self._low - index
        key = (index, used)
        if key not in self._alive:
            if len(self._alive) > _MAX_STATES:
                raise ConstraintError("uniqueItems has too many cases; shorten prefixItems")
            self._alive[key] = bool(self.choices(index, used))
        return self._alive[key]


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
