"""Free numbers are those of a regular expression that says the same at length."""

from __future__ import annotations

from collections import deque

from sgc_ir.automata.automaton import Automaton
from sgc_ir.automata.regex import regex_automaton
from sgc_ir.automata.schema.free_numbers import FreeNumbers

_POWER = r"-[0-9]{1,3}|\+?0[0-9]|\+?(?:[0-9]|[1-9][0-9]|[12][0-9]{2}"
_SHORT = rf"(?:[eE](?:{_POWER})))?"
_ONE = rf"(?:[eE](?:{_POWER}|30[0-7])))?"
_FRACTION = r"(?:\.[0-9]+)?"
_FREE = (
    rf"-?(?:0{_FRACTION}{_ONE}|[1-9]{_FRACTION}{_ONE}"
    rf"|[1-9][0-9]{{1,7}}{_FRACTION}{_SHORT}|[1-9][0-9]{{8,299}}{_FRACTION})"
)


def test_they_are_those_of_the_regex() -> None:
    free = Automaton(lambda pool: FreeNumbers(pool).text(), b"free")
    other = regex_automaton(_FREE)
    pairs = {(free.start, other.start)}
    queue = deque(pairs)
    while queue:
        first, second = queue.popleft()
        assert free.is_accepting(first) == other.is_accepting(second)
        for here, there in zip(free.row(first).tolist(), other.row(second).tolist(), strict=True):
            assert (here < 0) == (there < 0)
            if here >= 0 and (here, there) not in pairs:
                pairs.add((here, there))
                queue.append((here, there))
    assert len(pairs) > 300


def test_each_is_read_as_a_finite_double() -> None:
    free = Automaton(lambda pool: FreeNumbers(pool).text(), b"free")
    for text in ("0", "-0.50", "9e307", "99999999e299", "9" * 300, "1.5E+07", "1e-999"):
        state = free.walk(free.start, text.encode())
        assert state >= 0
        assert free.is_accepting(state)
        assert abs(float(text)) < float("inf")
    for text in ("01", "1.", "1e308", "10e300", "9" * 301, "1e+", "123456789e1", ".5", "1e007"):
        state = free.walk(free.start, text.encode())
        assert state < 0 or not free.is_accepting(state)
