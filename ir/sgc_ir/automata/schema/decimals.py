"""Ranges of decimal numbers as expressions over their digits."""

from __future__ import annotations

from fractions import Fraction

from sgc_ir.automata.nodes import Node, Row
from sgc_ir.automata.pool import Pool

_DIGITS = 299  # digits that may follow the first one; a double holds 308
_ZEROS = 300  # zeros between the point and the first other digit above zero


def split(value: Fraction) -> tuple[str, str]:
    """Digits before and behind the point of a decimal number that is not negative."""
    whole, rest = divmod(value, 1)
    places = 0
    while (rest * 10**places).denominator > 1:
        places += 1
    digits = str((rest * 10**places).numerator).rjust(places, "0") if places else ""
    return str(whole), digits


def _holds(
    value: Fraction, low: Fraction | None, low_open: bool, high: Fraction | None, high_open: bool
) -> bool:
    above = low is None or low < value or (low == value and not low_open)
    return above and (high is None or high > value or (high == value and not high_open))


class Decimals:
    """Makes the expressions of one pool."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._digit = self._span("0", "9")
        self._any = pool.repeat(self._digit, 0, None)
        self._some = pool.string(".", pool.repeat(self._digit, 1, None))
        self._fraction = pool.optional(self._some)

    def _span(self, first: str, last: str, tail: Node | None = None) -> Node:
        return self._pool.one_of(((ord(first), ord(last)),), tail)

    def _digits(self, low: int, high: int | None, tail: Node) -> Node:
        return self._pool.sequence(self._pool.repeat(self._digit, low, high), tail)

    # Whole expressions

    def short(self) -> Node:
        """Numbers of so few digits that different ones are different doubles."""
        pool = self._pool
        fraction = pool.optional(pool.string(".", self._digits(1, 9, pool.epsilon)))
        plain = pool.union([self._digits(1, 15, pool.epsilon), self._digits(1, 6, fraction)])
        return pool.sequence(pool.optional(pool.string("-")), plain)

    def careful(self) -> Node:
        """Integers, and numbers with a fraction of which a double holds every digit before the
        point and some behind it."""
        pool = self._pool
        with_fraction = self._digits(1, 12, self._some)
        plain = pool.union([self._digits(1, _DIGITS, pool.epsilon), with_fraction])
        return pool.sequence(pool.optional(pool.string("-")), plain)

    def integers(self, low: int | None, high: int | None) -> Node:
        """Integers of a range."""
        pool, end = self._pool, self._pool.epsilon
        parts = []
        if high is None or high >= 0:
            parts.append(self._wholes(max(low or 0, 0), high, end))
        if low is None or low < 0:
            most = None if low is None else -low
            least = 1 if high is None or high >= 0 else -high
            parts.append(pool.string("-", self._wholes(least, most, end)))
        return pool.union(parts)

    def between(
        self, low: Fraction | None, low_open: bool, high: Fraction | None, high_open: bool
    ) -> Node:
        """Numbers of a range, without exponent."""
        zero = Fraction(0)
        parts = []
        if high is None or high > 0 or (high == 0 and not high_open):
            begin, is_open = (low, low_open) if low is not None and low >= 0 else (zero, False)
            parts.append(self._positive(begin, is_open, high, high_open))
        if low is None or low < 0:
            end = None if low is None else -low
            begin, is_open = (-high, high_open) if high is not None and high < 0 else (zero, True)
            negative = self._positive(begin, is_open, end, low_open)
            parts.append(self._pool.string("-", negative))
        if _holds(zero, low, low_open, high, high_open):
            parts.append(self._pool.string("-0", self._below("", False)))
        return self._pool.union(parts)

    def _positive(
        self, low: Fraction, low_open: bool, high: Fraction | None, high_open: bool
    ) -> Node:
        """From `low` (at least zero) to `high`."""
        pool = self._pool
        first, from_digits = split(low)
        least = self._above(from_digits, low_open, low == 0)
        if high is None:
            rest = self._wholes(int(first) + 1, None, self._fraction)
            return pool.union([pool.string(first, least), rest])
        if high < low:
            return pool.empty
        last, to_digits = split(high)
        if first == last:
            return pool.string(first, self._fractions(from_digits, low_open, to_digits, high_open))
        return pool.union(
            [
                pool.string(first, least),
                self._wholes(int(first) + 1, int(last) - 1, self._fraction),
                pool.string(last, self._below(to_digits, high_open)),
            ]
        )

    # Digits before the point

    def _wholes(self, low: int, high: int | None, tail: Node) -> Node:
        """Integers from `low` (at least zero) to `high`, then `tail`."""
        pool = self._pool
        if high is not None and high < low:
            return pool.empty
        if low == 0:
            rest = self._wholes(1, high, tail) if high != 0 else pool.empty
            return pool.union([pool.string("0", tail), rest])
        first = str(low)
        if high is None:
            more = self._span("1", "9", self._digits(len(first), max(_DIGITS, len(first)), tail))
            return pool.union([self._same(first, "9" * len(first), tail), more])
        last = str(high)
        if len(first) == len(last):
            return self._same(first, last, tail)
        parts = [self._same(first, "9" * len(first), tail)]
        if len(last) - len(first) > 1:
            middle = self._digits(len(first), len(last) - 2, tail)
            parts.append(self._span("1", "9", middle))
        parts.append(self._same("1" + "0" * (len(last) - 1), last, tail))
        return pool.union(parts)

    def _same(self, low: str, high: str, tail: Node) -> Node:
        """Digit strings as long as `low` and `high`, between them, then `tail`."""
        pool = self._pool
        shared = 0
        while shared < len(low) and low[shared] == high[shared]:
            shared += 1
        if shared == len(low):
            return pool.string(low, tail)
        a, b = int(low[shared]), int(high[shared])
        begin, end = low[shared + 1 :], high[shared + 1 :]
        rest = self._digits(len(begin), len(begin), tail)
        parts = []
        if begin.strip("0"):
            parts.append(pool.string(str(a), self._at_least(begin, tail)))
            a += 1
        if end.strip("9"):
            parts.append(pool.string(str(b), self._at_most(end, tail)))
            b -= 1
        if a <= b:
            parts.append(self._span(str(a), str(b), rest))
        return pool.string(low[:shared], pool.union(parts))

    def _at_least(self, low: str, tail: Node) -> Node:
        """As many digits as `low` has, not below it."""
        if tail is self._pool.epsilon:
            return self._compared(low, "9")
        node = tail
        for i in range(len(low) - 1, -1, -1):
            rest = self._digits(len(low) - i - 1, len(low) - i - 1, tail)
            parts = [self._pool.string(low[i], node)]
            if low[i] < "9":
                parts.append(self._span(chr(ord(low[i]) + 1), "9", rest))
            node = self._pool.union(parts)
        return node

    def _at_most(self, high: str, tail: Node) -> Node:
        """As many digits as `high` has, not above it."""
        if tail is self._pool.epsilon:
            return self._compared(high, "0")
        node = tail
        for i in range(len(high) - 1, -1, -1):
            rest = self._digits(len(high) - i - 1, len(high) - i - 1, tail)
            parts = [self._pool.string(high[i], node)]
            if high[i] > "0":
                parts.append(self._span("0", chr(ord(high[i]) - 1), rest))
            node = self._pool.union(parts)
        return node

    def _compared(self, bound: str, most: str) -> Node:
        """As many digits as `bound` has, between it and as many of `most`; made as they come."""
        if not bound.strip("0" if most == "9" else "9"):
            return self._digits(len(bound), len(bound), self._pool.epsilon)
        name = f"digits {bound} to {most}"
        return self._pool.lazy(name, lambda: self._compared_row(bound, most))

    def _compared_row(self, bound: str, most: str) -> Row:
        digit, rest = ord(bound[0]), bound[1:]
        equal = (digit, digit, self._compared(rest, most))
        beyond = self._digits(len(rest), len(rest), self._pool.epsilon)
        if most == "9":
            return (equal, (digit + 1, ord("9"), beyond)) if digit < ord("9") else (equal,)
        return ((ord("0"), digit - 1, beyond), equal) if digit > ord("0") else (equal,)

    # Digits behind the point, the point included

    def _above(self, digits: str, is_open: bool, zero: bool) -> Node:
        """Fractions from `digits` on; those above `zero` itself have a bounded run of zeros."""
        pool = self._pool
        if not digits and not is_open:
            return self._fraction
        return pool.string(".", self._digits_above(digits, is_open, zero))

    def _digits_above(self, digits: str, is_open: bool, zero: bool = False) -> Node:
        pool = self._pool
        zeros = pool.repeat(pool.string("0"), 0, _ZEROS if zero else None)
        node = pool.sequence(zeros, self._span("1", "9", self._any)) if is_open else self._any
        for i in range(len(digits) - 1, -1, -1):
            parts = [pool.string(digits[i], node)]
            if digits[i] < "9":
                parts.append(self._span(chr(ord(digits[i]) + 1), "9", self._any))
            node = pool.union(parts)
        return node

    def _below(self, digits: str, is_open: bool) -> Node:
        """Fractions up to `digits`; the empty one is zero."""
        if not digits:
            if is_open:
                return self._pool.empty
            return self._pool.optional(self._pool.string(".", self._zeros()))
        return self._pool.optional(self._pool.string(".", self._digits_below(digits, is_open)))

    def _zeros(self) -> Node:
        return self._pool.repeat(self._pool.string("0"), 1, None)

    def _digits_below(self, digits: str, is_open: bool) -> Node:
        """One digit or more that make no more than `digits`, whose last one is not zero."""
        pool = self._pool
        node = pool.empty if is_open else pool.repeat(pool.string("0"), 0, None)
        for i in range(len(digits) - 1, -1, -1):
            parts = [pool.string(digits[i], node)]
            if digits[i] > "0":
                parts.append(self._span("0", chr(ord(digits[i]) - 1), self._any))
            node = pool.union(parts)
            if i:
                node = pool.optional(node)
        return node

    def _fractions(self, low: str, low_open: bool, high: str, high_open: bool) -> Node:
        """Fractions between two of one integer."""
        pool = self._pool
        least = self._above(low, low_open, False)
        return pool.intersection([least, self._below(high, high_open)])
