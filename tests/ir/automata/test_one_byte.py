"""Steps by one byte against rows of all bytes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.regexes import random_regex

from sgc_ir.automata.automaton import DEAD, Automaton
from sgc_ir.automata.one_byte import branches
from sgc_ir.automata.regex import regex_automaton
from sgc_ir.automata.schema.compile import schema_automaton
from sgc_ir.errors import ConstraintError

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 3},
        "tags": {"type": "array", "items": {"enum": ["aé", "ab", 7]}},
        "children": {"type": "array", "items": {"$ref": "#"}, "maxItems": 2},
    },
    "required": ["name"],
    "additionalProperties": False,
}


def check(automaton: Automaton, most: int = 60) -> None:
    """Up to so many states: what a step and a look at the head say before the row is there."""
    queue, seen = [automaton.start], {automaton.start}
    while queue and len(seen) < most:
        state = queue.pop()
        firsts = [b for low, high in automaton.first_bytes(state) for b in range(low, high + 1)]
        stepped = [automaton.step(state, byte) for byte in range(256)]
        open_ = branches(automaton._nodes[state])
        assert stepped == automaton.row(state).tolist()
        assert firsts == [byte for byte in range(256) if stepped[byte] != DEAD]
        if open_:
            assert sum(following != DEAD for following in stepped) > 1
        for following in dict.fromkeys(stepped):
            if following != DEAD and following not in seen:
                seen.add(following)
                queue.append(following)


@settings(max_examples=120, deadline=None)
@given(st.randoms(use_true_random=False))
def test_steps_are_those_of_the_row(rng: random.Random) -> None:
    try:
        automaton = regex_automaton(random_regex(rng))
    except ConstraintError:
        return
    check(automaton)


@pytest.mark.parametrize(
    "pattern",
    [
        r'\{"name": "[\w\s]{1,3}", "x": [0-9]{1,2}\}',
        r"(a|bc|é){2,5}(d|[e-g])?",
        r"([^\"\\]|\\u[0-9a-f]{4})*\"",
        r"(?=.*b)[a-c]{1,4}(?!d)[a-e]*",
        r"(?:ab?)*(?:ac)?",
        "無線|無緑",
    ],
)
def test_steps_through_kinds_of_heads(pattern: str) -> None:
    check(regex_automaton(pattern), most=200)


def test_steps_through_a_schema() -> None:
    check(schema_automaton(SCHEMA), most=200)


def test_a_counted_class_is_passed_without_its_rows() -> None:
    automaton = regex_automaton(r'"\w{1,40}": ')
    states = [automaton.start]
    for char in '"' + "aé" * 9 + '"':
        states.append(automaton.walk(states[-1], char.encode()))
        forced = automaton.forced(states[-1])[0]
        assert forced == (b": " if len(states) == 21 else b"")
    assert automaton.num_states < 60
    assert not automaton.row_of[states].any()
