"""The compressed view of automata: against `re`, against interegular, and as text."""

from __future__ import annotations

import json
import random
import re
from itertools import product
from xml.etree import ElementTree

import interegular
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.automaton_texts import texts_of
from support.regexes import compiled, random_regex, random_text

from sgc_ir.automata.automaton import Automaton
from sgc_ir.automata.fsm_draw import dot, json_form, mermaid, render_fsm, table
from sgc_ir.automata.fsm_layout import layout
from sgc_ir.automata.fsm_svg import svg
from sgc_ir.automata.fsm_view import FsmView, view
from sgc_ir.automata.regex import regex_automaton
from sgc_ir.errors import ConstraintError

# interegular knows ASCII classes and no anchors; `(?a)` it does not know, so no \d \w \s here.
PLAIN = [
    "a|bc|bd",
    "(a|b)*abb",
    "[a-f]{2,4}x?",
    "(ab|cd)+e",
    '\\{"name": "[a-z]+", "age": [0-9]{1,3}\\}',
    "(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])\\.",
    '[^"\\\\]*"',
    "(?!foo)[a-z]{3}",
    "x{2,}y{,3}",
    "((a+)+)+b",
]


def accepts(shown: FsmView, text: str) -> bool:
    """Follow the edges; a text edge has to be there as a whole."""
    places = [(0, 0)]
    for state, at in places:
        if at == len(text):
            if shown.accepting[state]:
                return True
            continue
        for edge in (edge for edge in shown.edges if edge.source == state):
            if edge.text and text.startswith(edge.text, at):
                places.append((edge.target, at + len(edge.text)))
            elif any(low <= ord(text[at]) <= high for low, high in edge.chars):
                places.append((edge.target, at + 1))
    return False


def inner_states(shown: FsmView) -> int:
    """How many states there are when compressed edges are spelled out, shared ends once."""
    found = {(edge.target, edge.text[i:]) for edge in shown.edges for i in range(1, len(edge.text))}
    return shown.num_states + len(found)


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False))
def test_a_view_accepts_what_re_matches(rng: random.Random) -> None:
    pattern = random_regex(rng, 1)
    engine = compiled(pattern)
    try:
        shown = view(regex_automaton(pattern), 1000)
    except ConstraintError:
        return
    assert engine is not None
    for text in (random_text(rng) for _ in range(20)):
        assert accepts(shown, text) == (engine.fullmatch(text) is not None), (pattern, text)


@pytest.mark.parametrize("pattern", PLAIN)
def test_states_are_as_few_as_interegulars_and_accept_the_same(pattern: str) -> None:
    shown = view(regex_automaton(pattern))
    other = interegular.parse_pattern(pattern).to_fsm().reduce()
    alive = [state for state in other.states if other.islive(state)]
    assert inner_states(shown) == len(alive)
    rng = random.Random(0)
    letters = 'abcdefoxy0125.{}":\\ é'
    for text in ("".join(rng.choices(letters, k=rng.randint(0, 6))) for _ in range(300)):
        assert accepts(shown, text) == other.accepts(text)


def test_forced_text_is_one_edge() -> None:
    shown = view(regex_automaton(r'\{"name": "[a-z]+", "age": [0-9]+\}'))
    first = shown.edges[0]
    assert (first.source, first.text, first.forced) == (0, '{"name": "', True)
    assert [edge.text for edge in shown.edges if edge.text] == ['{"name": "', '", "age": ', "}"]
    assert shown.accepting == (False,) * 5 + (True,)
    assert shown.byte_states == 24


def test_accepting_and_branching_states_stay() -> None:
    shown = view(regex_automaton("ab(cd)?|ax"))
    assert {(edge.source, edge.text, edge.target) for edge in shown.edges} == {
        (0, "a", 1),
        (1, "b", 2),
        (1, "x", 3),
        (2, "cd", 3),
    }
    assert shown.accepting == (False, False, True, True)


def test_bytes_of_a_character_are_put_together() -> None:
    shown = view(regex_automaton("無線|無緑"))
    assert [edge.label for edge in shown.edges] == ['"無"', "[緑線]"]


@pytest.mark.parametrize(
    ("pattern", "label"),
    [
        (".", r"[^\n]"),
        ("(?s:.)", "."),
        (r"\w", r"\w"),
        (r"[\s]", r"\s"),
        (r"[^\\\]a-c]", r"[^\\\]a-c]"),
        ("[a-cx]", "[a-cx]"),
        ('\x00\u200b"\n', r'"\x00\u200b\"\n"'),
        ("[\U0001f600-\U0001f64f]", "[😀-🙏]"),
        ("[acegikmoqsuwy]", "[acegikmo... 13 characters]"),
        (r"[\w\d\s]", r"[\w\s]"),
        (r"[^\w\"]", r'[^\w"]'),
        (r"[\W_]", r"[\W_]"),
    ],
)
def test_labels(pattern: str, label: str) -> None:
    assert view(regex_automaton(pattern)).edges[0].label == label


def test_table() -> None:
    assert table(view(regex_automaton("yes|no!?"))).splitlines() == [
        "state  ends  edge",
        '0            "no" -> 1',
        '             "yes" -> 2',
        '1      yes   "!" -> 2',
        "2      yes",
    ]


def test_drawings() -> None:
    shown = view(regex_automaton('x"[<&a-z]*"|y+'))
    picture = ElementTree.fromstring(svg(shown))
    texts = [element.text for element in picture.iter() if element.tag.endswith("text")]
    assert [str(state) for state in range(shown.num_states)] == texts[-shown.num_states :]
    assert "[&<a-z]" in texts
    assert dot(shown).count(" -> ") == len(shown.edges) + 1
    assert '[label="\\"x\\\\\\"\\""' in dot(shown)


def test_mermaid_and_json() -> None:
    shown = view(regex_automaton('a"|b[x-z]'))
    drawn = mermaid(shown).splitlines()
    assert drawn[0] == "flowchart LR"
    assert len(drawn) == 1 + shown.num_states + len(shown.edges)
    assert '  s1((("1")))' in drawn
    assert '|"#34;a#92;#34;#34;"|' in mermaid(shown)
    data = json.loads(json_form(shown))
    assert [state["accepting"] for state in data["states"]] == list(shown.accepting)
    assert {"source": 0, "target": 1, "forced": False, "text": 'a"'} in data["edges"]
    assert {"source": 2, "target": 1, "forced": False, "chars": [[120, 122]]} in data["edges"]


def test_no_picture_of_a_thousand_states() -> None:
    shown = view(regex_automaton("[ab]{1200}"))
    assert len(render_fsm(shown, "text").splitlines()) == 1 + shown.num_states
    with pytest.raises(ConstraintError, match="1201 states, more than 1000"):
        render_fsm(shown, "svg")


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False))
def test_everything_has_a_place_of_its_own(rng: random.Random) -> None:
    """Edges go forward through neighbouring columns, or back; nothing lies on anything else."""
    try:
        shown = view(regex_automaton(random_regex(rng, 1)), 1000)
    except ConstraintError:
        return
    labels = {(edge.source, edge.target): edge.label for edge in shown.edges}
    plan = layout(shown.num_states, labels)
    assert len(set(plan.states)) == shown.num_states
    for (source, target), way in plan.ways.items():
        assert (way[0], way[-1]) == (plan.states[source], plan.states[target])
        assert [slot.column - way[0].column for slot in way] == list(range(len(way)))
        assert all(slot.row < plan.heights[slot.column] for slot in way)
        assert len(way) > 1
    for source, target in plan.back:
        assert plan.states[source].column > plan.states[target].column
    loops = {pair for pair in labels if pair[0] == pair[1]}
    assert set(plan.ways) | set(plan.back) | loops == set(labels)
    inner = {slot for way in plan.ways.values() for slot in way[1:-1]}
    places = [(slot.column, slot.row) for slot in (*plan.states, *inner)]
    assert len(set(places)) == len(places) == sum(plan.heights)


def test_large_automata_are_refused() -> None:
    with pytest.raises(ConstraintError, match="more than 100 states"):
        view(regex_automaton("[ab]{200}"), 100)


def test_every_text_of_a_finite_language_is_in_the_view() -> None:
    def texts(automaton: Automaton) -> list[bytes]:
        found = texts_of(automaton, automaton.start, 64)
        assert found is not None
        return found

    pattern = "(a|bc?){1,2}"
    shown = view(regex_automaton(pattern))
    listed = {text.decode() for text in texts(regex_automaton(pattern))}
    for text in ("".join(p) for n in range(6) for p in product("abc", repeat=n)):
        assert (text in listed) == accepts(shown, text) == bool(re.fullmatch(pattern, text))
