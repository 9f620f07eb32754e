"""Counters of calls, forks and sub-programs: whole numbers, or sums of products of symbols.

A counter stays a plain number until a loop of run-time length has counted; then it is a polynomial
in pass numbers and lengths, with whole coefficients, that is lowered to expressions where a node
needs its ordinal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sgc.trace.symbol import Symbol

if TYPE_CHECKING:
    from sgc.trace.context import Trace

Key = tuple[tuple[int, int], ...]  # keys of the factors, sorted
Terms = Mapping[Key, tuple[int, tuple[Symbol, ...]]]


class Count:
    """An immutable polynomial; equal polynomials are equal."""

    __slots__ = ("terms",)

    def __init__(self, terms: Terms) -> None:
        self.terms = {k: term for k, term in terms.items() if term[0] != 0}

    @staticmethod
    def of(value: int | Symbol) -> Count:
        """The polynomial of a number or of one symbol."""
        if isinstance(value, int):
            return Count({(): (value, ())})
        return Count({(value.key,): (1, (value,))})

    def __add__(self, other: Count | int) -> Count:
        more = Count.of(other) if isinstance(other, int) else other
        terms = dict(self.terms)
        for key, (factor, symbols) in more.terms.items():
            terms[key] = (terms.get(key, (0, ()))[0] + factor, symbols)
        return Count(terms)

    def __sub__(self, other: Count) -> Count:
        return self + Count({k: (-f, s) for k, (f, s) in other.terms.items()})

    def __mul__(self, other: Count) -> Count:
        total = Count({})
        for _, (a, left) in self.terms.items():
            for _, (b, right) in other.terms.items():
                symbols = sorted((*left, *right), key=lambda s: s.key)
                key = tuple(s.key for s in symbols)
                total = total + Count({key: (a * b, tuple(symbols))})
        return total

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Count) and self._plain() == other._plain()

    def __hash__(self) -> int:
        return hash(frozenset(self._plain().items()))

    def _plain(self) -> dict[Key, int]:
        return {key: factor for key, (factor, _) in self.terms.items()}

    @property
    def constant(self) -> int | None:
        """The number that it is, or None."""
        if set(self.terms) <= {()}:
            return self.terms.get((), (0, ()))[0]
        return None

    @property
    def symbols(self) -> Iterable[Symbol]:
        """All symbols in it."""
        return [s for _, symbols in self.terms.values() for s in symbols]

    def lower(self, trace: Trace) -> Any:
        """The number, or an operand that computes it in the current region."""
        if self.constant is not None:
            return self.constant
        with trace.unseen():
            return self._recorded(trace)

    def _recorded(self, trace: Trace) -> Any:
        total: Any = None
        for key in sorted(self.terms, key=lambda k: (len(k), k)):
            factor, symbols = self.terms[key]
            product: Any = factor
            for symbol in symbols:
                one = isinstance(product, int) and product == 1
                product = symbol if one else trace.expr("*", product, symbol)
            total = product if total is None else trace.expr("+", total, product)
        return trace.operand(total)


ZERO = Count({})
