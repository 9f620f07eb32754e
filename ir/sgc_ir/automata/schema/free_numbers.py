"""Any number that a double holds, as states written by hand.

These are the numbers of most schemas. As an expression they would take longer to make than the
rest of a state's mask.
"""

from __future__ import annotations

from collections.abc import Callable

from sgc_ir.automata.nodes import Node, Row
from sgc_ir.automata.pool import Pool

_DIGITS = 300  # of an integer; a double holds 309
_SCALED_DIGITS = 8  # of an integer with a power of ten behind it
_ONE, _MORE = 307, 299  # the highest power of ten behind one digit, and behind more
_ZERO, _NINE = ord("0"), ord("9")


class FreeNumbers:
    """The states of one pool. Each is named by what may follow, so that equal ones are one."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._end = pool.epsilon

    def text(self) -> Node:
        """A number, from its beginning."""
        return self._lazy("", self._number, False)

    def _lazy(self, name: str, make: Callable[[], Row], nullable: bool = True) -> Node:
        return self._pool.lazy(f"number{name}", make, nullable)

    def _number(self) -> Row:
        return ((ord("-"), ord("-"), self._lazy("-", self._whole, False)), *self._whole())

    def _whole(self) -> Row:
        zero = self._lazy(f".{_ONE}", lambda: self._behind_whole(_ONE))
        return ((_ZERO, _ZERO, zero), (_ZERO + 1, _NINE, self._digits(1)))

    def _digits(self, count: int) -> Node:
        """Behind so many digits of an integer."""
        return self._lazy(str(count), lambda: self._digits_row(count))

    def _digits_row(self, count: int) -> Row:
        highest = _ONE if count == 1 else _MORE if count <= _SCALED_DIGITS else None
        row = self._behind_whole(highest)
        if count == _DIGITS:
            return row
        digit = (_ZERO, _NINE, self._digits(count + 1))
        return (row[0], digit, *row[1:])

    def _behind_whole(self, highest: int | None) -> Row:
        """A fraction, or a power of ten up to `highest`."""
        point = self._lazy(f".{highest}d", lambda: self._fraction(highest)[:1], False)
        return ((ord("."), ord("."), point), *self._letter(highest))

    def _fraction(self, highest: int | None) -> Row:
        """One more digit, or a power of ten."""
        digits = self._lazy(f"d{highest}", lambda: self._fraction(highest))
        return ((_ZERO, _NINE, digits), *self._letter(highest))

    def _letter(self, highest: int | None) -> Row:
        if highest is None:
            return ()
        power = self._lazy(f"e{highest}", lambda: self._power(highest), False)
        return tuple((ord(letter), ord(letter), power) for letter in "Ee")

    def _power(self, highest: int) -> Row:
        above = self._lazy(f"e+{highest}", lambda: self._above(highest), False)
        below = self._more(3, 1)
        return ((ord("+"), ord("+"), above), (ord("-"), ord("-"), below), *self._above(highest))

    def _above(self, highest: int) -> Row:
        """A power up to `highest`; one digit may have a zero before it."""
        hundreds, rest = divmod(highest, 100)
        whole = hundreds if rest == 99 else hundreds - 1
        row = [
            (_ZERO, _ZERO, self._more(1)),
            (_ZERO + 1, _ZERO + whole, self._more(2)),
            (_ZERO + hundreds + 1, _NINE, self._more(1)),
        ]
        if whole < hundreds:
            last = self._lazy(f"e{highest}h", lambda: self._hundreds(rest))
            row.insert(2, (_ZERO + hundreds, _ZERO + hundreds, last))
        return tuple(row)

    def _hundreds(self, rest: int) -> Row:
        """Behind the first digit of the highest power, which ends with 0 and `rest`."""
        units = self._lazy(f"u{rest}", lambda: ((_ZERO, _ZERO + rest, self._end),))
        return ((_ZERO, _ZERO, units), (_ZERO + 1, _NINE, self._end))

    def _more(self, most: int, least: int = 0) -> Node:
        """So many digits."""
        if most == 0:
            return self._end
        name = f"{least}-{most}digits"
        return self._lazy(name, lambda: ((_ZERO, _NINE, self._more(most - 1)),), not least)
