"""Stop patterns against Python's `re`, which looks at the whole text after each piece."""

from __future__ import annotations

import re
from itertools import accumulate, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgc_runtime.tokenizer import stop_regex
from sgc_runtime.tokenizer.regex_begins import states_of
from sgc_runtime.tokenizer.stop_regex import RegexStop

_ATOMS = st.sampled_from(
    ["a", "b", "é", ".", "\\n", "[ab]", "[^a]", "\\s", "$", "(?=b)", "(?!a)", "\\Z", "ab"]
)


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    times = st.sampled_from(["*", "+", "?", "*?", "{2}", "{1,3}", "{2,}"])
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda parts: f"(?:{parts[0]}|{parts[1]})"),
        st.tuples(inner, times).map(lambda parts: f"(?:{parts[0]}){parts[1]}"),
    )


PATTERNS = st.recursive(_ATOMS, _larger, max_leaves=6)
PIECES = st.lists(st.text("abé\n", max_size=3), max_size=6)
ENDINGS = ["".join(end) for n in range(4) for end in product("abé\n", repeat=n)]


@settings(max_examples=300, deadline=None)
@given(PATTERNS, PIECES, st.integers(0, 2))
def test_the_first_match_is_that_of_python(pattern: str, pieces: list[str], first: int) -> None:
    stop, compiled = RegexStop(pattern), re.compile(pattern)
    for text in accumulate(pieces):
        if first > len(text):
            continue
        expected = compiled.search(text, first)
        found = stop.find(text, first)
        assert found == (None if expected is None else expected.span())
        if found is not None:
            return
        safe = stop.first_possible(text, first)
        later = [compiled.search(text + more, first) for more in ENDINGS]
        begins = [match.start() for match in later if match is not None]
        assert safe <= min(begins, default=len(text))
        assert first <= safe <= len(text)


@pytest.mark.parametrize(
    ("pattern", "text", "possible"),
    [
        ("b c", "a b", 2),
        ("b c", "a b d", 5),
        (r"\n\n(?=Q)", "x\n\n", 1),
        ("(?i)stop!", "go STO", 3),
        ("[0-9]{3,5}x", "12 4567", 3),
        ("(a|aa)+c", "aaa" * 1000, 0),
    ],
)
def test_what_may_go_on_is_held_back(pattern: str, text: str, possible: int) -> None:
    assert states_of(pattern) is not None
    stop = RegexStop(pattern)
    assert stop.find(text, 0) is None
    assert stop.first_possible(text, 0) == possible


@pytest.mark.parametrize(
    "pattern", [r"(?<=a)b", r"(a)\1", r"\bb", "^b", "a{1,900}c", ".{0,300}c", "(?>a)b"]
)
def test_other_patterns_are_searched_as_before(pattern: str) -> None:
    stop, text, compiled = RegexStop(pattern), "", re.compile(pattern)
    for piece in ["a" * 40, "\ud800", "aab", " b", "c"]:
        text += piece
        expected = compiled.search(text)
        assert stop.find(text, 0) == (None if expected is None else expected.span())
        if expected is not None:
            return
        assert stop.first_possible(text, 0) <= len(text)


def test_no_search_by_an_automaton_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_regex, "_SEARCH_LIMIT_S", 1e-9)
    stop, text = RegexStop(r"(\w+\s?)+;"), ""
    for _ in range(50):
        text += "the quick brown fox "
        assert stop.find(text, 0) is None
        assert stop.first_possible(text, 0) == 0
