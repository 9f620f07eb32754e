"""Signatures of states: alike in every process, and only for equal texts."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from sgc_ir.automata.automaton import Automaton
from sgc_ir.automata.regex import regex_automaton

PATTERNS = [
    r'"[\w\d]{1,4}", (yes|no|yet)',
    r"(a|ab|[^b]{2,3}){1,3}x?",
    r"(?!ab|ba)[ab]{1,4}",
    r"(?=.*\d)[a-z\d]{2,5}",
]


def explored(automaton: Automaton, backwards: bool, states: int = 60) -> list[int]:
    """States in an order of search."""
    found = [automaton.start]
    for state in found:
        ways = automaton.ways(state)
        for _, _, following in reversed(ways) if backwards else ways:
            if following not in found and len(found) < states:
                found.append(following)
    return found


@pytest.mark.parametrize("pattern", PATTERNS)
def test_order_of_making_does_not_matter(pattern: str) -> None:
    first, second = regex_automaton(pattern), regex_automaton(pattern)
    texts = [b"", b'"a', b'"\xd9', b"ab", b"aab", b"b", b"a1", b'"ab", y']
    for text in texts:
        explored(second, backwards=True)
        states = first.walk(first.start, text), second.walk(second.start, text)
        if states[0] < 0:
            assert states[1] < 0
            continue
        assert first.signature(states[0]) == second.signature(states[1])


@pytest.mark.parametrize("pattern", PATTERNS)
def test_states_of_one_automaton_have_names_of_their_own(pattern: str) -> None:
    automaton = regex_automaton(pattern)
    names = [automaton.signature(state) for state in explored(automaton, backwards=False)]
    assert len(set(names)) == len(names)
    assert {len(name) for name in names} == {16}


def test_equal_rests_of_different_automata_have_one_name() -> None:
    first, second = regex_automaton("a[bc]{2}"), regex_automaton("xy(b|c){2}")
    assert first.signature(first.walk(first.start, b"a")) == second.signature(
        second.walk(second.start, b"xy")
    )


def test_other_processes_give_the_same_names() -> None:
    code = (
        "from sgc_ir.automata.regex import regex_automaton\n"
        "regex_automaton('[x-z日]+')\n"  # other sets and expressions come first
        f"for pattern in {PATTERNS!r}:\n"
        "    a = regex_automaton(pattern)\n"
        "    print(a.signature(a.start).hex())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "7"},
    )
    automata = [regex_automaton(pattern) for pattern in PATTERNS]
    assert done.stdout.split() == [a.signature(a.start).hex() for a in automata]
