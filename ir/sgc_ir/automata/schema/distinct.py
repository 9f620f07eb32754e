"""Arrays whose items differ: which of them list the values of each item, and which write them."""

from __future__ import annotations

import math
from fractions import Fraction

from sgc_ir.automata.schema.cells import Arrays, Form, Goal, Numbers
from sgc_ir.automata.schema.forms import Forms
from sgc_ir.automata.schema.keywords import EndlessError, unsupported
from sgc_ir.automata.schema.spelling import spelled
from sgc_ir.automata.schema.strings import StringTexts
from sgc_ir.errors import ConstraintError

_MOST = 256  # values of one item
_MAX_STATES = 20_000
MOST_ITEMS = 4096  # of an array whose items are remembered

Used = frozenset[str]


class DistinctItems:
    """The items of one array cell.

    Raises:
        ConstraintError: kind "unsupported".

    Attributes:
        listed: whether each item is one of a few values; of those the methods tell. Else the texts
            of the items are remembered as they are written (`emit_recorded`).
    """

    def __init__(self, cell: Arrays, forms: Forms, strings: StringTexts) -> None:
        if cell.contains:
            raise unsupported("uniqueItems beside contains", cell.unique)
        self._low = cell.low
        self._most = math.inf if cell.high is None else cell.high
        goals = [*cell.prefix, *([cell.rest] if self._most > len(cell.prefix) else [])]
        found = [listed_values(form, strings) for form in _forms_of(goals, forms, cell)]
        listed = [texts for texts in found if texts is not None]
        self.listed = len(listed) == len(found)
        if not self.listed and cell.low > MOST_ITEMS:
            raise unsupported(f"uniqueItems on more than {MOST_ITEMS} items", cell.unique)
        self._prefix, self._rest = listed[: len(cell.prefix)], listed[len(cell.prefix) :]
        self._alive: dict[tuple[int, Used], bool] = {}

    def may_end(self, index: int) -> bool:
        return index >= self._low

    def choices(self, index: int, used: Used) -> list[str]:
        """Texts of item `index` from which the array can be ended."""
        if index >= self._most:
            return []
        texts = self._texts(index)
        return [t for t in texts if t not in used and self.alive(index + 1, used | {t})]

    def _texts(self, index: int) -> list[str]:
        if index < len(self._prefix):
            return self._prefix[index]
        return self._rest[0] if self._rest else []

    def alive(self, index: int, used: Used) -> bool:
        """Whether the array can be ended behind these items."""
        if self.may_end(index):
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
