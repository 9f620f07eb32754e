"""Number texts against exact arithmetic and against comparisons of doubles."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.regexes import accepts

from sgc_ir.automata.automaton import Automaton
from sgc_ir.automata.schema.compile import schema_automaton
from sgc_ir.errors import ConstraintError

_bounds = st.one_of(
    st.integers(-1200, 1200),
    st.sampled_from([0.5, -0.25, 12.75, 0.1, -9.99, 1e-7, -1e16, 1e17, 123456789.5]),
)
_limits = {
    "minimum": lambda value, bound: value >= bound,
    "maximum": lambda value, bound: value <= bound,
    "exclusiveMinimum": lambda value, bound: value > bound,
    "exclusiveMaximum": lambda value, bound: value < bound,
}
_schemas = st.fixed_dictionaries({}, optional=dict.fromkeys(_limits, _bounds))


def _compiled(schema: dict[str, Any]) -> Automaton | None:
    """The automaton; None where no number is allowed."""
    try:
        return schema_automaton(schema)
    except ConstraintError as error:
        if error.kind != "unsatisfiable":
            raise
        return None


def _near(schema: dict[str, Any]) -> list[float]:
    values: list[float] = [0.0, -0.0, 5e-324, 1e300, -1e300]
    for bound in schema.values():
        values += [bound, -bound, bound / 2, bound * 3]
        values += [math.nextafter(bound, math.inf), math.nextafter(bound, -math.inf)]
    return values


@settings(max_examples=60, deadline=None)
@given(_schemas, st.lists(st.floats(-9e307, 9e307), max_size=10))
def test_every_double_is_written_as_python_does(
    schema: dict[str, Any], others: list[float]
) -> None:
    values = _near(schema) + others
    holds = {
        value: all(_limits[word](value, bound) for word, bound in schema.items())
        for value in values
    }
    automaton = _compiled({"type": "number", **schema})
    if automaton is None:
        assert not any(holds.values())
        return
    for value in values:
        assert accepts(automaton, json.dumps(value)) == holds[value], (schema, value)


@settings(max_examples=60, deadline=None)
@given(
    _schemas,
    st.sampled_from([1, 3, 7, 0.5, 0.25, 0.01, 12]),
    st.lists(st.fractions(-50, 50, max_denominator=1), max_size=20),
)
def test_multiples_are_exact(schema: dict[str, Any], step: float, others: list[Fraction]) -> None:
    exact = Fraction(repr(step))
    numbers = [
        *others,
        *(Fraction(i, 4) for i in range(-9, 9)),
        Fraction(1, 100),
        Fraction(1, 1000),
    ]
    limits = {word: Fraction(repr(bound)) for word, bound in schema.items()}
    holds = [
        number % exact == 0 and all(_limits[word](number, b) for word, b in limits.items())
        for number in numbers
    ]
    automaton = _compiled({"type": "number", "multipleOf": step, **schema})
    if automaton is None:
        assert not any(holds)
        return
    for number, expected in zip(numbers, holds, strict=True):
        text = f"{float(number):.3f}"
        assert accepts(automaton, text) == expected, (schema, step, text)


@pytest.mark.parametrize("text", ["01", "+1", "1.", ".5", "-", "1e", "0x1", "NaN", "--1", "1e400"])
def test_no_number(text: str) -> None:
    assert not accepts(schema_automaton({"type": "number"}), text)
    assert not accepts(schema_automaton({"type": "number", "minimum": -10}), text)


def test_a_value_next_to_an_excluded_bound_is_not_read_as_the_bound() -> None:
    automaton = schema_automaton({"type": "number", "exclusiveMaximum": 1})
    assert accepts(automaton, "0.9999999999999999")
    assert not accepts(automaton, "0.99999999999999999999")  # a double reads 1.0


_EDGES = (-1000, -120, -21, -10, -9, -1, 0, 1, 5, 9, 10, 19, 20, 90, 99, 100, 110, 120, 199, 1200)
_TEXTS = [str(number) for edge in _EDGES for number in range(edge - 2, edge + 12)]
_WITH_FRACTION = [*_TEXTS, *(text + end for text in _TEXTS for end in (".0", ".5", ".999"))]


@pytest.mark.parametrize(("kind", "texts"), [("integer", _TEXTS), ("number", _WITH_FRACTION)])
def test_every_bound_that_ends_in_zeros_or_nines(kind: str, texts: list[str]) -> None:
    wrong = []
    for low in _EDGES:
        for high in (edge for edge in _EDGES if edge >= low):
            automaton = schema_automaton({"type": kind, "minimum": low, "maximum": high})
            for text in texts:
                if accepts(automaton, text) != (low <= float(text) <= high):
                    wrong.append((low, high, text))
    assert not wrong
