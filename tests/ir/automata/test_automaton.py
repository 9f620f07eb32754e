"""States, forced runs, finite languages and counted runs of an automaton."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.automaton_texts import texts_of
from support.regexes import accepts

from sgc_ir.automata.automaton import DEAD, UNKNOWN, Automaton
from sgc_ir.automata.regex import regex_automaton
from sgc_ir.errors import ConstraintError


def behind(automaton: Automaton, text: str) -> int:
    return automaton.walk(automaton.start, text.encode())


def by_rows(automaton: Automaton, state: int, data: bytes) -> int:
    """As `Automaton.walk`, but with the rows of all states on the way."""
    for byte in data:
        state = int(automaton.row(state)[byte])
    return state


@pytest.mark.parametrize(
    ("pattern", "before", "forced"),
    [
        ("hello", "", "hello"),
        ("hello", "he", "llo"),
        (r'\{"name": "[a-z]+"\}', "", '{"name": "'),
        (r'\{"name": "[a-z]+", "x": 1\}', '{"name": "bob"', ', "x": 1}'),
        ("red|rose", "", "r"),
        ("red(dish)?", "", "red"),  # the text may end behind red
        ("red(dish)?", "redd", "ish"),
        ("[ab]x", "", ""),
        ("a{3}b{2}", "a", "aabb"),
        ("(?=abc)[a-z]+", "", "abc"),
        ("(?!b)[ab]", "", "a"),
        ("x(?:y|yy)$", "", "xy"),
    ],
)
def test_forced_text(pattern: str, before: str, forced: str) -> None:
    automaton = regex_automaton(pattern)
    data, state = automaton.forced(behind(automaton, before))
    assert data == forced.encode()
    assert state == behind(automaton, before + forced)


def test_forced_text_may_end_inside_a_character() -> None:
    automaton = regex_automaton("無線|無緑")
    data, _ = automaton.forced(automaton.start)
    assert data == bytes.fromhex("e784a1e7b7")


def test_a_forced_run_is_cut_at_its_limit() -> None:
    automaton = regex_automaton("a{100}")
    data, state = automaton.forced(automaton.start, limit=10)
    assert data == b"a" * 10
    assert state == behind(automaton, "a" * 10)


def test_final_states_are_those_that_nothing_leaves() -> None:
    automaton = regex_automaton("ab?")
    assert not automaton.is_final(automaton.start)
    assert automaton.is_accepting(behind(automaton, "a"))
    assert not automaton.is_final(behind(automaton, "a"))
    assert automaton.is_final(behind(automaton, "ab"))


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("a|b|cd", ["a", "b", "cd"]),
        ("[A-D][+-]?", sorted(g + s for g in "ABCD" for s in ("", "+", "-"))),
        ("(?!b)[abé]", ["a", "é"]),
        ("x{2,4}", ["xx", "xxx", "xxxx"]),
        (
            "(a?b?){2}",
            sorted(
                {
                    "".join(p)
                    for n in range(5)
                    for p in product("ab", repeat=n)
                    if re.fullmatch("(a?b?){2}", "".join(p))
                }
            ),
        ),
        ("", [""]),
    ],
)
def test_finite_languages(pattern: str, texts: list[str]) -> None:
    automaton = regex_automaton(pattern)
    assert texts_of(automaton, automaton.start, 64) == [text.encode() for text in texts]


@pytest.mark.parametrize("pattern", ["a*", ".", "[a-z]{3}", "a+b", "(ab)*c", "a{65}|b{0,70}"])
def test_large_languages_are_not_listed(pattern: str) -> None:
    automaton = regex_automaton(pattern)
    assert texts_of(automaton, automaton.start, 64) is None


@settings(max_examples=50, deadline=None)
@given(st.sets(st.text("abé", max_size=5), min_size=1, max_size=20))
def test_the_words_of_an_alternation_are_its_texts(words: set[str]) -> None:
    automaton = regex_automaton("|".join(map(re.escape, words)))
    assert texts_of(automaton, automaton.start, 20) == sorted(word.encode() for word in words)


def test_rows_say_what_ways_say() -> None:
    automaton = regex_automaton(r"(?:[a-f]é|\d+x){2}")
    for state in range(40):
        if state >= automaton.num_states:
            break
        row = np.full(256, DEAD, np.int32)
        for low, high, following in automaton.ways(state):
            row[low : high + 1] = following
        assert (automaton.row(state) == row).all()


def test_states_are_unknown_until_they_are_expanded() -> None:
    automaton = regex_automaton("a[bc]{200}")  # more states than the first table holds
    assert not automaton.row_of[automaton.start]
    assert (automaton.rows[automaton.row_of[automaton.start]] == UNKNOWN).all()
    state = by_rows(automaton, automaton.start, b"a" + b"b" * 199)
    assert automaton.row_of[automaton.start]
    assert not automaton.row_of[state]
    assert (automaton.rows[automaton.row_of[state]] == UNKNOWN).all()
    assert accepts(automaton, "a" + "bc" * 100)


def test_walks_end_at_the_first_illegal_byte() -> None:
    automaton = regex_automaton("ab")
    assert automaton.walk(automaton.start, b"ax") == DEAD
    assert automaton.walk(automaton.start, b"abc") == DEAD


@pytest.mark.parametrize(
    ("pattern", "before", "low", "high", "plain", "apart"),
    [
        (r'[\w\s]{1,16}"', "", 1, 16, True, True),
        (r'[\w\s]{1,16}"', "aé", 0, 14, True, True),
        (r"[a-z]*x", "ab", 0, None, True, False),  # an x may be in the run or behind it
        (r'(?:[^"\\]|\\["n]){2,9}"', "", 2, 9, False, True),
        (r'(?:[^"\\]|\\["n]){2,9}"', "a\\n", 0, 7, False, True),
        (r"[a-z]{3}", "", 3, 3, True, True),
    ],
)
def test_runs_of_characters(
    pattern: str, before: str, low: int, high: int | None, plain: bool, apart: bool
) -> None:
    automaton = regex_automaton(pattern)
    run = automaton.run(behind(automaton, before))
    assert run is not None
    assert (run.low, run.high, run.plain, run.apart) == (low, high, plain, apart)


@pytest.mark.parametrize(
    ("pattern", "before"), [("abc", ""), ("[a-z]{2}x", "ab"), ("(ab){2,3}", "")]
)
def test_other_states_stand_before_no_run(pattern: str, before: str) -> None:
    automaton = regex_automaton(pattern)
    assert automaton.run(behind(automaton, before)) is None


def test_the_rest_of_a_run_is_what_follows_it() -> None:
    automaton = regex_automaton(r'[\d]{1,3}", "b"')
    run = automaton.run(automaton.start)
    assert run is not None
    assert texts_of(automaton, run.rest, 3) == [b'", "b"']


def test_equal_patterns_have_equal_digests_and_others_do_not() -> None:
    assert regex_automaton("a|b").digest == regex_automaton("a|b").digest
    assert regex_automaton("a|b").digest != regex_automaton("b|a").digest


@pytest.mark.parametrize(
    "pattern", ["(?!)", "(?=a)b", r"\ud83d", "a^b", "[^\\w\\W]", r"x\bx", "$a"]
)
def test_languages_without_texts_are_refused(pattern: str) -> None:
    with pytest.raises(ConstraintError, match="no text is legal") as caught:
        regex_automaton(pattern)
    assert caught.value.kind == "unsatisfiable"


@pytest.mark.parametrize(
    ("pattern", "piece"),
    [(r"(?:[a-z]+ \d{1,3};){2,4000}", "ab 12;"), (r"(?:(?!ab)\w|\\n){0,9000}é", "c\\n")],
)
def test_states_that_nobody_needs_are_dropped(pattern: str, piece: str) -> None:
    whole, kept = regex_automaton(pattern), regex_automaton(pattern)
    first = there = kept.walk(kept.start, piece.encode())
    here = whole.walk(whole.start, piece.encode())
    most = 0
    for at in range(1, 1200):
        here, there = (by_rows(a, s, piece.encode()) for a, s in ((whole, here), (kept, there)))
        if at % 100 == 0:
            kept.keep([there, first])
            most = max(most, kept.num_bytes)
            assert not kept.row_of[there]
            assert whole.signature(here) == kept.signature(there)
            assert whole.forced(here) == (b"", here)
            ways = [(low, high) for low, high, _ in kept.ways(there)]
            assert ways == [(low, high) for low, high, _ in whole.ways(here)]
    assert most < whole.num_bytes // 8
    again = kept.walk(first, piece.encode())
    assert kept.signature(again) == whole.signature(whole.walk(whole.start, 2 * piece.encode()))
    assert kept.walk(kept.start, piece.encode()) == first


def test_long_texts_do_not_crowd() -> None:
    automaton = regex_automaton(r"(?:[a-z]+,[0-9]+;){1,90000}")
    state = automaton.start
    for _ in range(9000):
        if automaton.is_crowded:
            automaton.keep([state])
        state = automaton.walk(state, b"ab,1;")
    assert automaton.num_bytes < 20 << 20
    assert automaton.num_states > 30_000
