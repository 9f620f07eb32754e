"""Boxes of counts, and nested counts of parts that a text splits into in many ways."""

from __future__ import annotations

import re
from itertools import product
from math import inf

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.regexes import accepts

from sgc_ir.automata.counted import Box, boxes
from sgc_ir.automata.regex import regex_automaton

LETTERS = "aé "
LONGEST = 5
TEXTS = ["".join(p) for n in range(LONGEST + 1) for p in product(LETTERS, repeat=n)]

_intervals = st.tuples(st.integers(0, 4), st.one_of(st.integers(0, 4), st.just(inf))).map(
    lambda pair: (pair[0], pair[0] + pair[1])
)
_boxes = st.integers(1, 3).flatmap(
    lambda n: st.lists(st.tuples(*[_intervals] * n), min_size=1, max_size=6)
)


def within(box: Box, point: tuple[int, ...]) -> bool:
    return all(low <= at <= high for (low, high), at in zip(box, point, strict=True))


@given(_boxes)
def test_boxes_hold_the_same_points_in_whatever_order_they_are(found: list[Box]) -> None:
    kept = boxes(found)
    assert len(kept) <= len(set(found))
    assert boxes(found[::-1]) == kept
    for point in product(range(10), repeat=len(found[0])):
        assert any(within(box, point) for box in kept) == any(within(box, point) for box in found)


def test_boxes_that_lie_in_others_or_touch_are_not_kept() -> None:
    assert boxes([((0, 5), (2, 8)), ((0, 5), (3, 7))]) == [((0, 5), (2, 8))]
    assert boxes([((0, 5), (2, 8)), ((0, 5), (9, inf))]) == [((0, 5), (2, inf))]
    assert len(boxes([((0, 5), (2, 8)), ((0, 6), (3, 9))])) == 2
    assert len(boxes([((0, 5), (2, 8)), ((0, 5), (10, 12))])) == 2


_heads = st.sampled_from(["a", "[aé]", "[^ ]", r"\w", r"\S", "(?:aé)", "(?:a|é )", "(?:a?é?)"])
_counts = st.tuples(st.integers(0, 2), st.integers(0, 2)).map(
    lambda pair: f"{{{pair[0]},{pair[0] + pair[1]}}}"
)
_counts = st.one_of(_counts, st.sampled_from(["*", "+", "?", ""]))
_counted = st.tuples(_heads, _counts).map("".join)
_group = st.tuples(_counted, st.sampled_from(["", " ?", "a?", r"\s*", "(?: |é)?"]), _counts)
_nested = _group.map(lambda parts: f"(?:{parts[0]}{parts[1]}){parts[2]}")
_patterns = st.one_of(
    _nested,
    st.tuples(_nested, _counted).map("".join),
    st.tuples(_nested, _nested).map("|".join),
    st.tuples(_nested, _counted, _counts).map(lambda p: f"(?:{p[0]}{p[1]}){p[2]}"),
)


@settings(max_examples=120, deadline=None)
@given(_patterns)
@example(r"(?:\S{1,2}\s?){1,3}")
@example("(?:a{2,3}é?a?){1,2}|(?:a{0,2}é?a?){2,3}")
def test_nested_counts_are_those_of_python(pattern: str) -> None:
    automaton = regex_automaton(pattern)
    for text in TEXTS:
        assert accepts(automaton, text) == bool(re.fullmatch(pattern, text)), text


@pytest.mark.parametrize(
    ("pattern", "most"),
    [
        (r"([^ ]{1,20} ?){5,40}", 2),
        (r"(\w{1,30}[,.]? ?){5,50}", 2),
        (r"([^\W\d_]{2,30}[^\w\s]?\s?){5,50}", 3),
        (r"(\w+[ ,.]*){10,60}", 1),
        (r"((a{1,9}b?){2,9}c?){2,9}", 3),
    ],
)
def test_ambiguous_nested_counts_are_few_expressions(pattern: str, most: int) -> None:
    automaton = regex_automaton(pattern)
    state, found = automaton.start, []
    for byte in b"a" * 40:
        state = automaton.step(state, byte)
        found.append(len(automaton.parts(state)))
    assert max(found) <= most
