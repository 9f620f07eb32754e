"""Masks where texts may be split in many ways, against every token tried."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.masks import WORDS, check_walk, vocabularies

from sgc_ir.automata.automaton import DEAD
from sgc_ir.automata.regex import regex_automaton
from sgc_ir.errors import ConstraintError
from sgc_runtime.constraints import mask_maker
from sgc_runtime.constraints.passing import Passing
from sgc_runtime.constraints.vocabulary import Vocabulary

VOCABULARIES = vocabularies(WORDS)


@pytest.fixture(autouse=True, params=[4, 400], ids=str)
def many_nodes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How large a part of the trie is for which states behind characters are looked for."""
    monkeypatch.setattr(mask_maker, "_MANY_NODES", request.param)


CASES = [
    (r"(\S{1,3}\s?){2,4}", "ab a日😀 x1a"),
    (r"(\w{1,3}[,.]? ?){1,4}", "aab, 日a. b"),
    (r"([^\W\d_]{2,3}[^\w\s]?\s?){2,5}", 'ab"aaa éaa'),
    (r"(\w+[ ,.]*){2,6}", "ab ,a 日本"),
    (r"([ab]{1,2}日?){1,3}[ab]x1", "ab日aabx1"),
    (r"(a{1,3}(?:ab)?){1,3}b", "aaabab"),  # something else begins with some of the characters
    (r"((\w{1,2}1?){1,2} ?){2,3}", "ab1a b"),
    (r"([日本]{1,2}月?){2,3}a", "日本日月本a"),  # what follows shares a lead byte
    (r"(x1|([ab]{1,2}é?){2,3})", "abéa"),
]


@pytest.mark.parametrize(("pattern", "text"), CASES)
@pytest.mark.parametrize("vocabulary", VOCABULARIES, ids=["compiled", "numpy"])
def test_masks_along_a_text(vocabulary: Vocabulary, pattern: str, text: str) -> None:
    assert re.fullmatch(pattern, text)
    check_walk(regex_automaton(pattern), vocabulary, text.encode(), states=30)


_heads = st.sampled_from(["[ab]", r"\w", r"\S", "[日本a]", "[^ ]", "é"])
_counts = st.sampled_from(["{1,2}", "{2,3}", "{1,30}", "+", "*", "{2}"])
_ends = st.sampled_from(["", " ?", r"\s*", "日?", r"[^\w\s]?", "(?:1|x1)?", "b?"])
_patterns = st.tuples(_heads, _counts, _ends, _ends, _counts).map(
    lambda p: f"({p[0]}{p[1]}{p[2]}{p[3]}){p[4]}"
)
_walks = st.lists(st.sampled_from(["a", "b", "日", " ", "é", "1", '"', "x"]), max_size=5)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(_patterns, min_size=1, max_size=2).map("".join), _walks)
def test_masks_of_any_groups(pattern: str, text: list[str]) -> None:
    try:
        automaton = regex_automaton(pattern)
    except ConstraintError:
        return
    legal = ""
    for character in text:
        if automaton.walk(automaton.start, (legal + character).encode()) != DEAD:
            legal += character
    check_walk(automaton, VOCABULARIES[0], legal.encode(), states=20)


def test_such_states_are_found() -> None:
    vocabulary = VOCABULARIES[0]
    assert Passing(regex_automaton(r"(\w{1,3} ?){1,4}"), vocabulary).takes(0)
    assert not Passing(regex_automaton(r"(\w{1,3} ){1,4}"), vocabulary).takes(0)
