"""Regions kept between rows: each row of a batch equals the interpreter, whatever came before."""

from __future__ import annotations

import random
from copy import copy, deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.broken_programs import ROWS as BROKEN
from support.odd_calls import with_odd_calls
from support.paths import Script
from support.random_branches import BranchWriter
from support.random_programs import ProgramWriter, load_text
from support.row_outcomes import row_outcomes

import sgc
from sgc.breaks.kept import KeptRegion

ROWS: list[dict[str, Any]] = [
    {"q": "hey", "n": 2, "xs": ["a", "b"], "ys": ["u", "v", "w"]},
    {"q": "yes", "n": 3, "xs": ["one two"], "ys": []},
    {"q": "", "n": 2, "xs": ["a", "b"], "ys": ["u", "v", "w"]},
]
BRANCH_ROWS: list[dict[str, Any]] = [
    {"q": "q", "xs": ["a", "yes"]},
    {"q": "q", "xs": []},
    {"q": "yes", "xs": ["a", "yes"]},
]
SETTINGS = {"tone": "kind"}
TIMES = [1]


class Bag:
    def __init__(self, word: str) -> None:
        self.word = word


def odd(value: Any) -> Any:
    """The value, by a call that is not compiled."""
    return random.choice([value])


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> list[KeptRegion]:
    """The regions that were used again."""
    found: list[KeptRegion] = []
    bind = KeptRegion.bind

    def noted(self: KeptRegion, *args: Any) -> Any:
        found.append(self)
        return bind(self, *args)

    monkeypatch.setattr(KeptRegion, "bind", noted)
    return found


def check(
    program: sgc.Program, rows: list[dict[str, Any]], script: Script, parallel: int = 1
) -> list[dict[str, Any]]:
    live = row_outcomes(program, deepcopy(rows), "interpreted", script)
    mixed = row_outcomes(program, deepcopy(rows), "auto", script, parallel)
    for row, one, other in zip(rows, live, mixed, strict=True):
        if one["error"] is None:
            assert other == one, row
        else:
            assert other["error"] == one["error"], row
            assert set(one["calls"]) <= set(other["calls"]), row
    return mixed


def twice(rows: list[dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    """The rows, and the rows with other texts, shuffled."""
    found = [*rows, *({**row, "q": row["q"] + " more"} for row in rows), *rows]
    random.Random(seed).shuffle(found)
    return found


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from((1, 4)))
def test_rows_of_random_programs_are_equal(seed: int, parallel: int) -> None:
    program = load_text(with_odd_calls(ProgramWriter(seed).text(), seed, 0.2))
    check(program, twice(ROWS, seed), Script(seed), parallel)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from((1, 4)))
def test_rows_of_random_branches_are_equal(seed: int, parallel: int) -> None:
    program = load_text(with_odd_calls(BranchWriter(seed).text(), seed, 0.2))
    script = Script(seed, failing=7 if seed % 3 == 0 else 0)
    check(program, twice(BRANCH_ROWS, seed), script, parallel)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_rows_of_many_random_programs_are_equal(bound: list[KeptRegion]) -> None:
    for seed in range(1000):
        test_rows_of_random_programs_are_equal.hypothesis.inner_test(seed, 1 + seed % 4)
        test_rows_of_random_branches_are_equal.hypothesis.inner_test(seed, 1 + seed % 4)
    assert len(bound) > 10_000


@pytest.mark.parametrize("program", [p for p in BROKEN if p.name != "linked"], ids=lambda p: p.name)
def test_the_second_row_is_not_traced(program: sgc.Program, bound: list[KeptRegion]) -> None:
    [name] = program.parameter_names
    rows = [{name: text} for text in ("one", "two", "three", "four")]
    check(program, rows, Script(1))
    assert len(bound) >= 3


@sgc.function
def told(s, x, extra=None):
    s += f"{SETTINGS['tone']} {x} {len(TIMES)}"
    s += sgc.gen("a", max_tokens=2)
    found = [odd(s["a"]), x]
    found.append(extra)
    s += f"{found[0]} and {found[-1]}"
    return found


def test_a_changed_global_is_traced_anew(bound: list[KeptRegion]) -> None:
    @sgc.function
    def setting(s, x):
        SETTINGS.update(tone=x)
        s += f"{SETTINGS['tone']} " + sgc.gen("a", max_tokens=2)
        return odd(s["a"])

    try:
        check(setting, [{"x": x} for x in ("kind", "kind", "cold", "kind", "cold")], Script(3))
    finally:
        SETTINGS["tone"] = "kind"
    assert bound


def test_new_lists_are_those_of_one_row(bound: list[KeptRegion]) -> None:
    @sgc.function
    def kept(s, x):
        words: list[Any] = []
        pair = (words, {"inner": [1]})
        s += "a" + sgc.gen("a", max_tokens=2)
        words.append(odd(s["a"]))
        words.append(x)
        pair[1]["inner"].append(x)
        return words, pair, pair[0] is words

    outcomes = check(kept, [{"x": x} for x in ("p", "q", "r")], Script(4))
    assert len({one["value"] for one in outcomes}) == 3
    assert bound  # the region that compares with `is` is not among them


@pytest.mark.parametrize(
    "values",
    [(1, True, 1.0), (0.0, -0.0, 0), ("1", 1, b"1"), (None, "", 0), ((1,), [1], {"a": 1})],
    ids=str,
)
def test_equal_values_of_other_types_are_not_mixed_up(values: tuple[Any, ...]) -> None:
    rows = [{"x": x, "extra": y} for x in values for y in values]
    check(told, rows, Script(5))


def test_objects_of_the_users_classes_are_traced_anew(bound: list[KeptRegion]) -> None:
    @sgc.function
    def boxed(s, x):
        bag = copy(Bag(x))
        s += f"{bag.word}: " + sgc.gen("a", max_tokens=2)
        bag.word = odd(s["a"])
        s += f"{bag.word}: " + sgc.gen("b", max_tokens=2)
        return bag.word

    check(boxed, [{"x": x} for x in ("p", "q", "p")], Script(6))


def test_the_same_list_twice_is_not_two_lists() -> None:
    @sgc.function
    def aliased(s, x):
        s += sgc.gen("b", max_tokens=2)
        word = odd(s["b"])
        one = copy(["w"])
        other = one if x == "same" else copy(["w"])
        odd(word)
        one.append("v") if len(other) == 1 else None
        s += f"{one} {other} {one is other} " + sgc.gen("a", max_tokens=2)
        return one, other

    check(aliased, [{"x": x} for x in ("same", "not", "same", "not")], Script(7))


def test_equal_texts_are_not_taken_for_one_object() -> None:
    @sgc.function
    def identical(s, x, y):
        s += sgc.gen("a", max_tokens=2)
        odd(s["a"])
        if x is y:
            s += "same"
        if x is None:
            s += "none"
        s += sgc.gen("b", max_tokens=2)

    one, other = ("".join(["wor", "d"]) for _ in range(2))
    pairs = [(one, one), (one, other), (other, other), (other, one), (None, None), (None, one)]
    rows = [{"x": x, "y": y} for x, y in pairs]
    live, mixed = (row_outcomes(identical, rows, m, Script(2)) for m in ("interpreted", "auto"))
    assert mixed == live


def test_forks_and_variables_of_other_shapes_are_traced_anew(bound: list[KeptRegion]) -> None:
    @sgc.function
    def forked(s, n, x):
        forks = s.fork(n)
        forks += ["x" for _ in forks]
        for f in forks:
            f += sgc.gen("said", max_tokens=2)
        if x:
            s += sgc.gen("early", max_tokens=1)
        odd(forks[0]["said"])
        for f in forks:
            f += "again " + sgc.gen("more", max_tokens=1)
        forks.join()
        s += "end" + sgc.gen("last", max_tokens=1)
        return s["said"], s["more"], s.get("early")

    rows = [{"n": n, "x": x} for n in (2, 1, 2, 3) for x in (True, False)]
    check(forked, rows * 2, Script(8), 3)
    assert len(bound) > len(rows)


def test_tools_of_one_name_are_not_mixed_up() -> None:
    def made(factor: int) -> sgc.Program:
        @sgc.tool(name="times", effect="pure")
        def times(x: int) -> int:
            return x * factor

        @sgc.function
        def scaled(s, n):
            s += f"{sgc.call(times, n)} " + sgc.gen("a", max_tokens=1)
            return odd(s["a"])

        return scaled

    for factor in (2, 3):
        check(made(factor), [{"n": n} for n in (1, 1, 2)], Script(9))
