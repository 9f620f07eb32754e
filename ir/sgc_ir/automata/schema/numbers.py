"""Expressions for JSON numbers: exact ranges, multiples and exclusions over decimal digits.

Bounds are compared digit by digit; a multiple is a remainder that the digits carry along. Free
numbers and those under a bound are written with or without an exponent, never beyond what a double
holds; those that have to be multiples, or not to be something, without one.
"""

from __future__ import annotations

import hashlib
import math
import re
from fractions import Fraction

from sgc_ir.automata.nodes import Node, Row
from sgc_ir.automata.pool import Pool
from sgc_ir.automata.regex import regex_expression
from sgc_ir.automata.schema.cells import Numbers
from sgc_ir.automata.schema.decimals import Decimals, split
from sgc_ir.automata.schema.exponents import scientific
from sgc_ir.automata.schema.free_numbers import FreeNumbers
from sgc_ir.automata.schema.words import words
from sgc_ir.errors import ConstraintError

_ONE = Fraction(1)
_WIDEST = 400  # digits of a bound
_PLAIN = r"0|-?[1-9][0-9]{0,14}|-?(?:0|[1-9][0-9]{0,5})\.[0-9]{0,8}[1-9]"  # one text each


class NumberTexts:
    """Expressions of number cells in one pool."""

    def __init__(self, pool: Pool, name: str) -> None:
        self._pool = pool
        self._name = name
        self._decimals = Decimals(pool)
        self._known: dict[Numbers, Node] = {}

    def text(self, cell: Numbers) -> Node:
        """The numbers of `cell`; the empty expression where there are none."""
        found = self._known.get(cell)
        if found is None:
            found = self._known[cell] = self._text(cell)
        return found

    def single(self, cell: Numbers) -> Node:
        """The numbers of `cell`, each in one text; those that are no integers have 15 digits at
        most, by which doubles differ, or are listed in the schema."""
        if cell.values is not None:
            texts = sorted(_one_text(value, written) for value, written in cell.values)
            return self._pool.union([self._pool.string(text) for text in texts])
        if cell.integral:
            return self.text(cell)
        plain = regex_expression(self._pool, _PLAIN)
        return self._pool.intersection([self.text(cell), plain])

    def _text(self, cell: Numbers) -> Node:
        pool = self._pool
        if cell.values is not None:
            data = [t for pair in cell.values for t in _spelled(*pair, cell.integral)]
            digest = hashlib.blake2b(b",".join(data), digest_size=12).hexdigest()
            return words(pool, f"{self._name}.v{digest}", data)
        step = None if cell.integral and cell.step == _ONE else cell.step
        narrow = bool(step or cell.no_steps or cell.excluded)
        parts = [self._range(cell, narrow)]
        if step is not None:
            parts.append(self._multiple(step, cell.integral))
            if not cell.integral:
                parts.append(self._decimals.careful())
        for other in sorted(cell.no_steps):
            parts.append(pool.complement(self._multiple(other, False)))
        if cell.no_steps or (cell.excluded and not cell.integral):
            parts.append(self._decimals.short())
        for value in sorted(cell.excluded):
            parts.append(pool.complement(self._spellings(value)))
        return pool.intersection(parts)

    def _spellings(self, value: Fraction) -> Node:
        """`value` with any number of zeros at the end of its fraction."""
        pool = self._pool
        if value == 0:
            zero = self._decimals.between(value, False, value, False)
            return pool.union([zero, pool.string("-", zero)])
        whole, digits = split(abs(value))
        zeros = pool.repeat(pool.string("0"), 0, None)
        tail = pool.string("." + digits, zeros)
        text = pool.string(("-" if value < 0 else "") + whole, tail if digits else None)
        return text if digits else pool.sequence(text, pool.optional(tail))

    def _range(self, cell: Numbers, narrow: bool) -> Node:
        if max(len(str(b.numerator)) for b in (cell.low or _ONE, cell.high or _ONE)) > _WIDEST:
            raise ConstraintError(f"a bound has more than {_WIDEST} digits; make it smaller")
        if cell.integral:
            return self._decimals.integers(*_integer_bounds(cell))
        if cell.low is None and cell.high is None and not narrow:
            return FreeNumbers(self._pool).text()
        low, low_open = _float_bound(cell.low, cell.low_open, math.inf)
        high, high_open = _float_bound(cell.high, cell.high_open, -math.inf)
        plain = self._decimals.between(low, low_open, high, high_open)
        if narrow:
            return plain
        scaled = scientific(self._pool, self._decimals, (low, low_open), (high, high_open))
        return self._pool.union([plain, scaled])

    # Multiples

    def _multiple(self, step: Fraction, integral: bool) -> Node:
        """Every decimal number that is a multiple of `step`, plain or with a sign."""
        places = 0
        while step.denominator > 1 and (step * 10**places).denominator > 1:
            places += 1
        modulus = (step * 10**places).numerator
        name = f"{self._name}.m{step}.{integral}"
        machine = _Multiples(self._pool, name, modulus, places, integral)
        positive = machine.first()
        return self._pool.union([positive, self._pool.string("-", positive)])


class _Multiples:
    """Multiples of a number as states: the remainder so far, before the point, or with places left
    behind it.

    Args:
        modulus: the number times ten to the power of `places`, an integer.
        whole_only: no point is written.
    """

    def __init__(self, pool: Pool, name: str, modulus: int, places: int, whole_only: bool) -> None:
        self._pool = pool
        self._name = name
        self._modulus = modulus
        self._places = places
        self._whole_only = whole_only

    def first(self) -> Node:
        """Before the first digit."""
        return self._pool.lazy(f"{self._name}:", self._first_row)

    def _first_row(self) -> Row:
        digits = [(48, 48, self._whole(0, True))]
        digits += [(48 + d, 48 + d, self._whole(d % self._modulus, False)) for d in range(1, 10)]
        return tuple(digits)

    def _whole(self, rest: int, zero: bool) -> Node:
        ended = rest * 10**self._places % self._modulus == 0
        return self._pool.lazy(
            f"{self._name}:{rest}{'z' if zero else ''}", lambda: self._whole_row(rest, zero), ended
        )

    def _whole_row(self, rest: int, zero: bool) -> Row:
        row: list[tuple[int, int, Node]] = []
        if not self._whole_only and self._completes(rest, self._places):
            row.append((46, 46, self._fraction(rest, self._places, True)))
        if not zero:
            row += [
                (48 + d, 48 + d, self._whole((rest * 10 + d) % self._modulus, False))
                for d in range(10)
            ]
        return tuple(row)

    def _completes(self, rest: int, places: int) -> bool:
        """Whether `places` more digits can make a multiple."""
        return -rest * _power(places) % self._modulus < _power(places)

    def _fraction(self, rest: int, places: int, first: bool) -> Node:
        ended = not first and rest * 10**places % self._modulus == 0
        return self._pool.lazy(
            f"{self._name}:{rest}.{places}{'f' if first else ''}",
            lambda: self._fraction_row(rest, places),
            ended,
        )

    def _fraction_row(self, rest: int, places: int) -> Row:
        if places == 0:
            return ((48, 48, self._fraction(0, 0, False)),)
        row = []
        for digit in range(10):
            following = (rest * 10 + digit) % self._modulus
            if self._completes(following, places - 1):
                row.append((48 + digit, 48 + digit, self._fraction(following, places - 1, False)))
        return tuple(row)


def _spelled(value: Fraction, written: str, integral: bool) -> list[bytes]:
    """How a listed number is written: as in the schema, and an integer as one."""
    texts = [] if integral else [written.encode()]
    if value.denominator == 1 and (integral or abs(value) < 10**16):
        texts.append(str(value.numerator).encode())
    return texts


def _one_text(value: Fraction, written: str) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    whole, digits = split(abs(value))
    text = f"{'-' if value < 0 else ''}{whole}.{digits}"
    return text if re.fullmatch(_PLAIN, text) else written


def _power(places: int) -> int:
    return int(10**places)


def _integer_bounds(cell: Numbers) -> tuple[int | None, int | None]:
    low = high = None
    if cell.low is not None:
        low = math.ceil(cell.low) + (cell.low_open and cell.low.denominator == 1)
    if cell.high is not None:
        high = math.floor(cell.high) - (cell.high_open and cell.high.denominator == 1)
    return low, high


def _float_bound(
    bound: Fraction | None, is_open: bool, inside: float
) -> tuple[Fraction | None, bool]:
    """An excluded bound as the nearest double inside it, included: a text with more digits could
    be read as the bound itself. Zero stays, its neighbour has 324 digits."""
    if bound is None or not is_open or bound == 0 or abs(bound) > 2**53:
        return bound, is_open
    return Fraction(repr(math.nextafter(float(bound), inside))), False
