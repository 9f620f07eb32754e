"""What is known of steps is what the automaton's rows say."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgc_ir.automata import walks as walks_module
from sgc_ir.automata.automaton import DEAD, Automaton
from sgc_ir.automata.regex import regex_automaton

PATTERNS = [
    r'\{"name": "[A-Za-z ]{2,5}", "age": [0-9]{1,3}\}',
    r"[a-z]{0,3}[a-c]x",
    r"[a-z]{0,3}(dog|[0-9]{2})",
    r"[a-f]*[d-k]{2,4}",
    r"(ab|[a-c]){1,4}c?",
    r"[a-zé-ü日]{1,4}é?",
    r"([0-9]{1,2}|[0-5]x){1,3}",
    r"\w{1,3}[^a]{0,2}",
    r"(?!ab)[ab]{2,6}!",
]
_TEXTS = st.lists(st.text('abcdekxz019 é日!{"n', max_size=8), max_size=6)


def states_of(automaton: Automaton, texts: list[str]) -> list[int]:
    """Those behind each beginning of the texts, in as many walks."""
    found = []
    for text in texts:
        data = text.encode()
        for end in range(len(data) + 1):
            found.append(automaton.walk(automaton.start, data[:end]))
    return [state for state in found if state != DEAD]


def check(automaton: Automaton, state: int) -> int:
    """Compare all that is known behind `state` with its row; how much that is."""
    row, known = automaton.row(state).tolist(), 0
    for byte in range(256):
        found = automaton.walks.step(state, byte)
        assert found is None or found == row[byte]
        assert automaton.walks.known(state, bytes([byte])) in (-1, row[byte])
        known += found is not None
    return known


@pytest.mark.parametrize("pattern", PATTERNS)
@given(_TEXTS)
@settings(max_examples=40, deadline=None)
def test_what_is_known_is_what_the_rows_say(pattern: str, texts: list[str]) -> None:
    automaton = regex_automaton(pattern)
    for state in states_of(automaton, texts):
        check(automaton, state)


@pytest.mark.parametrize("pattern", PATTERNS)
@given(_TEXTS)
@settings(max_examples=20, deadline=None)
def test_walks_lead_where_they_do_without_a_memory(pattern: str, texts: list[str]) -> None:
    automaton = regex_automaton(pattern)
    for text in texts:
        data, fresh = text.encode(), regex_automaton(pattern)
        state, other = automaton.walk(automaton.start, data), fresh.walk(fresh.start, data)
        assert (state == DEAD) == (other == DEAD)
        if state != DEAD:
            assert automaton.is_accepting(state) == fresh.is_accepting(other)
            assert automaton.signature(state) == fresh.signature(other)
            assert automaton.walks.known(automaton.start, data) in (-1, state)


def test_one_character_of_a_run_stands_for_all() -> None:
    automaton = regex_automaton("[a-z]{1,9}x?")
    first = automaton.walk(automaton.start, b"q")
    assert automaton.walks.known(automaton.start, b"m") == first
    assert automaton.walks.step(automaton.start, ord("Q")) is None
    automaton.walk(first, b"r")  # where the run may have ended an x may be another one
    known = [automaton.walks.step(first, byte) is not None for byte in b"abwxyz"]
    assert known == [True, True, True, False, True, True]


def test_what_is_known_is_forgotten_when_it_is_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks_module, "_MOST", 3)
    automaton = regex_automaton("([a-c]{1,3}|[0-9]x){9}")
    for text in ("aabbcc", "0x1x", "abc0xabc"):
        assert automaton.walk(automaton.start, text.encode()) != DEAD
        for state in states_of(automaton, [text]):
            check(automaton, state)
