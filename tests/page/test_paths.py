"""Paths that may be of one node."""

from __future__ import annotations

import re
from itertools import product

import pytest

from sgc.page.paths import CallKey, NodeFinder, in_program, may_be_equal

PARTS = ("g0", "g1", "g*", "f0[1]", "f0[2]", "f0[*]", "f*[1]", "c0", "l3")


def as_pattern(part: str) -> str:
    return re.escape(part).replace(r"\*", "[0-9]+")


def agree(one: str, other: str) -> bool:
    """Whether a concrete component exists that both stand for, by trying them."""
    values = range(4)
    concrete = [f"g{i}" for i in values] + ["c0", "l3"]
    concrete += [f"f{i}[{j}]" for i in values for j in values]
    patterns = [re.compile(as_pattern(part)) for part in (one, other)]
    return any(all(p.fullmatch(text) for p in patterns) for text in concrete)


@pytest.mark.parametrize(("one", "other"), list(product(PARTS, PARTS)))
def test_components_agree_when_one_name_fits_both(one: str, other: str) -> None:
    assert may_be_equal(one, other) == agree(one, other)
    assert may_be_equal(f"f0[1]/{one}", f"f0[*]/{other}") == agree(one, other)
    assert not may_be_equal(one, f"{other}/g0")


def test_a_path_within_a_sub_program() -> None:
    assert in_program("f0[1]/c0/f1[2]/g0") == "f1[2]/g0"
    assert in_program("c0/c1/g3") == "g3"
    assert in_program("f0[1]/g2") == "f0[1]/g2"


def test_the_source_line_and_the_exact_path_decide() -> None:
    keys = [
        CallKey("p", "g*", "answer", "a.py:4"),
        CallKey("p", "g*", "answer", "a.py:9"),
        CallKey("p", "f0[0]/g0", "part", "a.py:5"),
        CallKey("p", "f0[1]/g0", "part", "a.py:5"),
        CallKey("q", "g0", "answer", "a.py:4"),
    ]
    find = NodeFinder(keys).find
    assert find(CallKey("p", "g3", "answer", "a.py:9")) == [1]
    assert find(CallKey("p", "g3", "answer", "")) == [0, 1]
    assert find(CallKey("p", "f0[*]/g0", "part", "a.py:5")) == [2, 3]
    assert find(CallKey("p", "f0[1]/g0", "part", "a.py:5")) == [3]
    assert find(CallKey("q", "c0/g0", "answer", "a.py:4")) == []
    assert NodeFinder(keys, relative=True).find(CallKey("q", "c0/g0", "answer", "a.py:4")) == [4]
    assert find(CallKey("p", "g3", "other", "a.py:9")) == []
