"""Expressions that short texts cannot tell apart, against all short texts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgc_ir.automata.automaton import DEAD, Automaton
from sgc_ir.automata.regex import regex_automaton
from sgc_ir.automata.schema.compile import schema_automaton

CASES = [
    ("a{2,9}b", "aaa"),
    ("(a|bc){1,20}d{3,7}", "abcadd"),
    ("(ab?){6}a", "aba"),
    ("([ab]{1,8}c){2,5}", "abcb"),
    ("x(a{0,9}|b{5,6}|ab)c", "xa"),
    ("(a?b?){2,9}c", "abab"),
    ("[a日]{1,6}b", "a日"),
    (r"(\\u[ab]{4}|a){1,9}b", "a\\uabab"),
    ("(?!aab)[ab]{1,6}", "aba"),
    ("(a{1,3}){2,4}b{2}", "aaab"),
]


def texts_agree(automaton: Automaton, state: int, other: int, num_bytes: int) -> bool:
    """Whether as many bytes are legal behind both, for all texts of at most `num_bytes`."""
    if num_bytes == 0 or state == other:
        return True
    first, second = automaton.row(state).tolist(), automaton.row(other).tolist()
    pairs = {pair for pair in zip(first, second, strict=True) if pair != (DEAD, DEAD)}
    return all(DEAD not in pair and texts_agree(automaton, *pair, num_bytes - 1) for pair in pairs)


def check(automaton: Automaton, text: str) -> None:
    state = automaton.start
    for byte in [*text.encode(), None]:
        for num_bytes in (1, 2, 3, 4):
            assert texts_agree(automaton, state, automaton.near(state, num_bytes), num_bytes)
        if byte is not None:
            state = automaton.step(state, byte)
            assert state != DEAD


@pytest.mark.parametrize(("pattern", "text"), CASES)
def test_near_expressions_begin_alike(pattern: str, text: str) -> None:
    check(regex_automaton(pattern), text)


PIECES = st.tuples(
    st.sampled_from(["a", "b", "[ab]", "(a|bc)", "(ab?)", "(a?)", "(a{1,2}b|c)", "日"]),
    st.sampled_from(["", "?", "*", "{2}", "{1,2}", "{0,3}", "{3,9}", "{2,}", "{7}"]),
).map("".join)


@settings(max_examples=120, deadline=None)
@given(st.lists(PIECES, min_size=1, max_size=4), st.integers(1, 5))
def test_near_expressions_of_any_regex_begin_alike(pieces: list[str], num_bytes: int) -> None:
    for pattern in ("".join(pieces), "|".join(pieces), f"({''.join(pieces)}){{2,8}}"):
        automaton = regex_automaton(pattern)
        states, seen = [automaton.start], {automaton.start}
        for state in states[:8]:
            near = automaton.near(state, num_bytes)
            assert texts_agree(automaton, state, near, num_bytes)
            for _, _, following in automaton.ways(state):
                if following not in seen:
                    seen.add(following)
                    states.append(following)


def test_near_expressions_of_schemas_begin_alike() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "maxLength": 9, "minLength": 5}},
        "required": ["a"],
    }
    check(schema_automaton(schema), '{"a": "abcdef"}')


def test_states_of_all_high_counts_are_one() -> None:
    automaton = regex_automaton(r"[a-z]{100,300}!")
    states = [automaton.walk(automaton.start, b"a" * n) for n in range(60)]
    assert len(set(states)) == 60
    assert len({automaton.near(state, 30) for state in states}) == 1
    assert len({automaton.near(state, 80) for state in states}) == 41
