"""The shortest legal text in tokens, against trying all sequences."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.masks import BYTES, WORDS
from support.regexes import random_regex

from sgc_ir.automata.automaton import DEAD, Automaton
from sgc_ir.automata.compile import constraint_automaton
from sgc_ir.automata.regex import regex_automaton
from sgc_ir.errors import ConstraintError
from sgc_ir.params import SamplingParams
from sgc_runtime.constraints.fewest import Fewest, fewest_tokens
from sgc_runtime.constraints.token_trie import TokenTrie

TRIE = TokenTrie(WORDS)


def tried(automaton: Automaton, tokens: list[bytes], most: int) -> int | None:
    """Breadth first, every token from every state."""
    here = {automaton.start}
    for count in range(most + 1):
        if any(automaton.is_accepting(state) for state in here):
            return count
        here = {automaton.walk(state, token) for state in here for token in tokens if token}
        here.discard(DEAD)
    return None


@pytest.mark.parametrize(
    ("params", "tokens"),
    [
        (SamplingParams(regex=""), 0),
        (SamplingParams(regex="a{9}"), 3),
        (SamplingParams(regex="日本?😀"), 2),
        (SamplingParams(regex="[a-z]{2,}0+"), 2),
        (SamplingParams(dtype="int"), 1),
        (SamplingParams(json_schema={"const": "aa"}), 3),
        (SamplingParams(grammar='start: "(" start ")" | "aaaa" "b"'), 2),
    ],
)
def test_known_lengths(params: SamplingParams, tokens: int) -> None:
    assert fewest_tokens(constraint_automaton(params), TRIE.table) == Fewest(tokens, True)


@pytest.mark.parametrize("style", ["spaced", "compact"])
def test_where_items_differ_as_many_as_where_they_need_not(style: str) -> None:
    strings = {"type": "array", "items": {"type": "string"}, "minItems": 2}
    equal, different = (
        fewest_tokens(
            constraint_automaton(
                SamplingParams(json_schema={**strings, "uniqueItems": unique}, json_style=style)
            ),
            TRIE.table,
        )
        for unique in (False, True)
    )
    assert different == Fewest(equal.tokens, False)


@settings(max_examples=100, deadline=None)
@given(st.randoms(use_true_random=False))
def test_as_few_as_by_trying(rng: random.Random) -> None:
    tokens = [*rng.sample(WORDS, 60), *BYTES[97:123]]
    try:
        automaton = regex_automaton(random_regex(rng, 1))
    except ConstraintError:
        return
    expected = tried(automaton, tokens, 4)
    found = fewest_tokens(automaton, TokenTrie(tokens).table, 4)
    if expected is not None:
        assert found == Fewest(expected, True)
    else:
        assert not found.exact
        assert found.tokens <= 5


def test_a_search_that_ends_early_gives_what_it_knows() -> None:
    automaton = regex_automaton("[a-z]{40}")
    exact = fewest_tokens(automaton, TRIE.table)
    assert exact == Fewest(10, True)
    assert fewest_tokens(automaton, TRIE.table, most=3) == Fewest(4, False)
    assert fewest_tokens(automaton, TRIE.table, states=12).tokens <= 10
    assert fewest_tokens(automaton, TRIE.table, seconds=0.0) == Fewest(1, False)
    assert fewest_tokens(regex_automaton("é"), TokenTrie([b"a"]).table) == Fewest(1, False)
