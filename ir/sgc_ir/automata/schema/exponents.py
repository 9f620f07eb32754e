"""Numbers of a range in scientific notation: one digit before the point, then a power of ten."""

from __future__ import annotations

from fractions import Fraction

from sgc_ir.automata.nodes import Node
from sgc_ir.automata.pool import Pool
from sgc_ir.automata.schema.decimals import Decimals

Bound = tuple[Fraction | None, bool]  # the bound, and whether it is excluded

# Powers that are written so: those for which Python and JavaScript do, within a double's range.
_POWERS = ((-324, -5), (16, 307))
_LEAST = (-324, Fraction(3))  # what is read as a number above zero for certain


def scientific(pool: Pool, decimals: Decimals, low: Bound, high: Bound) -> Node:
    """The numbers from `low` to `high` that have one of the powers."""
    below, above = _negated(high), _negated(low)
    positive = _positive(pool, decimals, low, high)
    return pool.union([positive, pool.string("-", _positive(pool, decimals, below, above))])


def _negated(bound: Bound) -> Bound:
    return None if bound[0] is None else -bound[0], bound[1]


def _positive(pool: Pool, decimals: Decimals, low: Bound, high: Bound) -> Node:
    """Numbers above zero of a range."""
    if high[0] is not None and high[0] <= 0:
        return pool.empty
    one, ten = Fraction(1), Fraction(10)
    first, least = _LEAST if low[0] is None or low[0] <= 0 else _scaled(low[0])
    last, most = (400, ten) if high[0] is None else _scaled(high[0])
    if first == last:
        digits = decimals.between(least, low[1], most, high[1])
        return pool.sequence(digits, _power(pool, decimals, first, first))
    any_digits = decimals.between(one, False, ten, True)
    parts = [pool.sequence(any_digits, _power(pool, decimals, first + 1, last - 1))]
    digits = decimals.between(least, low[1], ten, True)
    parts.append(pool.sequence(digits, _power(pool, decimals, first, first)))
    digits = decimals.between(one, False, most, high[1])
    parts.append(pool.sequence(digits, _power(pool, decimals, last, last)))
    return pool.union(parts)


def _scaled(value: Fraction) -> tuple[int, Fraction]:
    """The power of ten of a number above zero, and the number divided by it."""
    power = len(str(value.numerator)) - len(str(value.denominator))
    if value < Fraction(10) ** power:
        power -= 1
    return power, value / Fraction(10) ** power


def _power(pool: Pool, decimals: Decimals, low: int, high: int) -> Node:
    """`e` and a power from `low` to `high`; one digit may have a zero before it."""
    parts = []
    for first, last in _POWERS:
        begin, end = max(first, low), min(last, high)
        if begin > end:
            continue
        least, most = (begin, end) if begin > 0 else (-end, -begin)
        digits = [decimals.integers(least, most)]
        if least < 10:
            digits.append(pool.string("0", decimals.integers(least, min(most, 9))))
        sign = pool.optional(pool.string("+")) if begin > 0 else pool.string("-")
        parts.append(pool.sequence(sign, pool.union(digits)))
    letter = pool.union([pool.string("e"), pool.string("E")])
    return pool.sequence(letter, pool.union(parts)) if parts else pool.empty
