"""Known text across gens and constants, against the texts of the automata."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.automaton_texts import texts_of
from support.regexes import random_regex

import sgc
from sgc_ir.automata.ends import Ends, ends_of
from sgc_ir.automata.regex import regex_automaton
from sgc_ir.errors import ConstraintError
from sgc_ir.forced_runs import forced_runs, report


@pytest.mark.parametrize(
    ("pattern", "ends"),
    [
        ("abc", Ends(b"abc", b"abc", True)),
        ("", Ends(b"", b"", True)),
        ('"[a-z]+"', Ends(b'"', b'"', False)),
        ("(ab)*", Ends(b"", b"", False)),
        ("a(ba)*", Ends(b"a", b"a", False)),
        ("x(one|two)done", Ends(b"x", b"done", False)),
        ("(gone|done)!?", Ends(b"", b"", False)),
        ("無線|無緑", Ends("無".encode() + b"\xe7\xb7", b"", False)),
        ('[^"]*": end', Ends(b"", b'": end', False)),
    ],
)
def test_ends(pattern: str, ends: Ends) -> None:
    assert ends_of(regex_automaton(pattern)) == ends


@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False))
def test_ends_are_those_of_all_texts(rng: random.Random) -> None:
    try:
        automaton = regex_automaton(random_regex(rng, 1))
    except ConstraintError:
        return
    texts = texts_of(automaton, automaton.start, 200, 60)
    ends = ends_of(automaton)
    if texts is None:
        return
    assert ends.whole == (len(texts) == 1)
    assert all(text.startswith(ends.prefix) and text.endswith(ends.suffix) for text in texts)
    longest = len(ends.suffix) + 1
    if min(map(len, texts)) >= longest:  # nor is there a longer one
        assert len({text[-longest:] for text in texts}) > 1


def test_too_large_automata_have_no_suffix() -> None:
    assert ends_of(regex_automaton("[ab]{50}c"), states=20).suffix == b""


@sgc.function
def form(s, who: str):
    s += "Form of " + who + ": name=" + sgc.gen("name", regex='"[a-z]+"')
    s += ", age=" + sgc.gen("unit", regex="in years ") + sgc.gen("age", regex="<[0-9]+>")
    s += sgc.gen("free") + " and " + sgc.gen("stopped", regex="<[a-z]+>", stop=">") + " end"


def test_runs_join_gens_and_constants() -> None:
    program = form.compile().graph
    texts = [run.data for run in forced_runs(program)]
    assert texts == [b'"', b'", age=in years <', b">", b" and <"]
    gens = {node.id for node in program.graph.nodes if node.op == "Gen"}
    for run in forced_runs(program):
        assert gens & {node for node, _ in run.parts}
    lines = report(program).splitlines()
    assert len(lines) == 4
    assert lines[1].startswith("form: %")
    assert lines[1].endswith("'\", age=in years <'")


@pytest.mark.parametrize(
    ("params", "known"),
    [
        ({}, b"hello "),
        ({"stop": "x"}, b"hello "),
        ({"stop": ["l", "z"]}, b"he"),
        ({"stop": "o a"}, b"hell"),  # the end of what is forced may be the beginning of a stop
        ({"stop_token_ids": [5]}, b""),
        ({"stop_regex": "[0-9]"}, b""),
    ],
)
def test_a_stop_may_end_what_is_forced(params: dict[str, Any], known: bytes) -> None:
    @sgc.function
    def stopped(s):
        s += "Say: " + sgc.gen("x", regex="hello [a-z]+", **params) + "."

    runs = forced_runs(stopped.compile().graph)
    assert [run.data for run in runs] == ([b"Say: " + known] if known else [])


def test_nothing_is_forced_where_a_run_decides() -> None:
    @sgc.function
    def open_(s, pattern: str):
        s += "a" + sgc.gen("x", regex=pattern) + "b" + sgc.gen("y", n=2, regex="abc")

    assert report(open_.compile().graph) == "no text is forced\n"
