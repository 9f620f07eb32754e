"""Random grammars against lark's Earley parser."""

from __future__ import annotations

import random

import lark
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ir.automata.grammar.lark_oracle import recogniser
from support.regexes import accepts, mutated, sampled

from sgc_ir.automata.grammar.grammar import grammar_automaton
from sgc_ir.errors import ConstraintError

_PATTERNS = (
    "/a+/",
    "/ab?/",
    "/a|ab/",
    "/b*c/",
    "/[ab]c*?b/",
    "/(a|bc)+/",
    "/ab+?/",
    '"b"i',
    '"ab"',
    "/a(?!c)[abc]/",
    '"a".."c"',
    "/(ab?|b)*c/",
)
_IGNORED = ('" "', "/ +/", '"c"', "/c+/", "/#[^b]*/", "/#[^b]*b?/", "/ca?/")
_NAMES = ("start", "one", "two")


def _forms(names: tuple[str, ...]) -> st.SearchStrategy[str]:
    leaves = st.sampled_from([*names, "T0", "T1", '"a"', '"b"'])
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, min_size=2, max_size=3).map(" ".join),
            st.lists(inner, min_size=2, max_size=2).map(lambda two: f"({' | '.join(two)})"),
            st.tuples(inner, st.sampled_from(["*", "+", "?", "~2", "~0..2"])).map(
                lambda pair: f"({pair[0]}){pair[1]}"
            ),
        ),
        max_leaves=5,
    )


@st.composite
def grammars(draw: st.DrawFn) -> str:
    names = _NAMES[: draw(st.integers(1, 3))]
    forms = _forms(names)
    lines = []
    for name in names:
        choices = draw(st.lists(st.one_of(forms, st.just("")), min_size=1, max_size=3))
        lines.append(f"{name}: {' | '.join(dict.fromkeys(choices))}")
    lines += [f"T{i}: {draw(st.sampled_from(_PATTERNS))}" for i in range(2)]
    if draw(st.booleans()):
        lines.append(f"%ignore {draw(st.sampled_from(_IGNORED))}")
    return "\n".join(lines) + "\n"


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(grammars(), st.integers(0, 2**32), st.lists(st.text("aabbc #", max_size=7), max_size=15))
def test_random_grammars(grammar: str, seed: int, texts: list[str]) -> None:
    try:
        takes = recogniser(grammar)
    except lark.exceptions.LarkError:
        return  # alternatives that collide once repetitions are written out
    try:
        automaton = grammar_automaton(grammar)
        rng = random.Random(seed)
        found = sampled(automaton, rng, 8, 16)
        for text in [*texts, *found, *[mutated(text, rng, "abc") for text in found]]:
            assert accepts(automaton, text) == takes(text), text
    except ConstraintError as error:
        if error.kind == "unsatisfiable":
            assert not any(map(takes, texts))
        elif error.kind == "malformed":  # not an ignored terminal that goes on into another,
            raise  # and not a stack without end


@pytest.mark.parametrize(
    "grammar",
    [
        'start: start "+" start | start "*" start | "a" | "b"',
        'start: x\nx: y "a" | "b"\ny: x "c" | start "a" | ',
        'start: b start "c" | "a"\nb: "b"?',
        'start: b* start "c" | "a"\nb: "b" | ',
        'start: start start | "a" | \n%ignore "b"',
        "start: start | one\none: start | one | T0\nT0: /ab*/",
        'start: (start "b")? one start | "a"\none: start? "c"',
        'start: "a" start "b" | "a" start "c" | ',
        'start: "a" start "a" | "b" start "b" | "a" | "b" | ',
        'start: "a"~2..3 ("b" "c"~0..1)~1',
        'start: pair{"a", "b"} | "c"\npair{p, r}: p pair{r, p} | r',
        'start: "a" "b"\n%ignore /#[^\\n]*/\n%ignore /[ \\n]+/',
        'start: "a" " b"\n%ignore / +/',
        'start: "a" T*\nT: /[^b]+/\n%ignore / +/',
        'start: ("a"|"\\n")*\n%ignore /#[^\\n]*\\n?/\n%ignore " "',
        'start: "a"*\n%ignore /b(cd)?/',
    ],
)
def test_every_short_text(grammar: str) -> None:
    letters = "".join(dict.fromkeys(c for c in "ab# \nc+*d" if c in grammar.replace("\\n", "\n")))
    takes, automaton = recogniser(grammar), grammar_automaton(grammar)
    texts = [""]
    for text in texts:
        assert accepts(automaton, text) == takes(text), text
        if len(text) < 6 and len(texts) < 900:
            texts += [text + letter for letter in letters]
