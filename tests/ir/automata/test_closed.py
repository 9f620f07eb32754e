"""Closed sets against texts that are known beforehand, and against `re` letter by letter."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgc_ir.automata.closed import MOST_TEXTS, ClosedSet, closed_sets
from sgc_ir.automata.regex import regex_automaton


def sets_of(pattern: str, begun: str = "") -> list[ClosedSet]:
    automaton = regex_automaton(pattern)
    return closed_sets(automaton, automaton.walk(automaton.start, begun.encode()))


def texts_of(pattern: str, begun: str = "") -> list[list[str]]:
    return [[text.decode() for text in found.texts] for found in sets_of(pattern, begun)]


@pytest.mark.parametrize(
    ("pattern", "begun", "expected"),
    [
        ("(apple|apple pie|axe)?", "", [["", "apple", "apple pie", "axe"]]),
        ("日本語|日本酒", "", [["日本語", "日本酒"]]),
        ("(A|B)[+-]?; Reason: .*", "", [["A+;", "A-;", "A;", "B+;", "B-;", "B;"], ["A", "B"]]),
        ("(A|B)[+-]?; Reason: .*", "A", [["+;", "-;", ";"]]),
        ("(yes|no), .*", "", [["no", "yes"]]),
        ("yes, .*", "", []),  # one text
        ("abc", "", []),
        ("(a|b)*c", "", []),  # goes round and round
        ("[^x]+", "", []),
        ("(ab|c[a-z]*)", "", []),  # never together again
        ("(a|b)(c.*)?", "", [["a", "b"]]),
        ("a(b|c)?(d.*)?", "a", []),  # it may end on the way
    ],
)
def test_known_sets(pattern: str, begun: str, expected: list[list[str]]) -> None:
    assert texts_of(pattern, begun) == [sorted(texts, key=str.encode) for texts in expected]


def test_sets_are_bounded() -> None:
    assert len(sets_of(f"[{chr(0x4E00)}-{chr(0x4E00 + MOST_TEXTS - 1)}]")[0].texts) == MOST_TEXTS
    assert sets_of(f"[{chr(0x4E00)}-{chr(0x4E00 + MOST_TEXTS)}]") == []
    assert sets_of("(a{2000}|b)") == []  # a text too long to be scored


@given(words=st.lists(st.text("ab;é", max_size=4), min_size=2, max_size=8, unique=True))
@settings(max_examples=200, deadline=None)
def test_whole_languages(words: list[str]) -> None:
    assert texts_of("|".join(map(re.escape, words))) == [sorted(words, key=str.encode)]


@given(words=st.lists(st.text("abé", min_size=1, max_size=4), min_size=2, max_size=8, unique=True))
@settings(max_examples=200, deadline=None)
def test_words_before_what_all_go_on_with(words: list[str]) -> None:
    pattern = f"({'|'.join(words)}); [a-z]*"
    automaton = regex_automaton(pattern)
    farthest = closed_sets(automaton, automaton.start)[0]
    assert farthest.state is not None
    behind, after = automaton.forced(farthest.state)
    assert {text + behind for text in farthest.texts} == {f"{word}; ".encode() for word in words}
    assert automaton.is_accepting(after)


@given(
    pattern=st.recursive(
        st.sampled_from(["a", "b", "ab", "[ab]"]),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda p: f"(?:{p[0]}|{p[1]})"),
            st.tuples(inner, inner).map("".join),
            inner.map(lambda p: f"(?:{p})?"),
            inner.map(lambda p: f"(?:{p})*"),
        ),
        max_leaves=6,
    )
)
@settings(max_examples=200, deadline=None)
def test_every_legal_text_begins_with_exactly_one_text(pattern: str) -> None:
    legal = [
        "".join(letters).encode()
        for size in range(7)
        for letters in product("ab", repeat=size)
        if re.fullmatch(pattern, "".join(letters))
    ]
    automaton = regex_automaton(pattern)
    for found in closed_sets(automaton, automaton.start):
        states = {automaton.walk(automaton.start, text) for text in found.texts}
        if found.state is None:
            assert [t for t in legal if len(t) <= 6] == sorted(
                (t for t in found.texts if len(t) <= 6), key=lambda t: (len(t), t)
            )
        else:
            assert states == {found.state}
            for text in legal:
                assert sum(text.startswith(begin) for begin in found.texts) == 1
