"""Terminals against Python's `re.match`, which lark's lexers ask."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.regexes import accepts

from sgc_ir.automata.automaton import Automaton
from sgc_ir.automata.grammar import preferred
from sgc_ir.automata.grammar.preferred import terminal_pattern
from sgc_ir.automata.limits import DEFAULT_LIMITS
from sgc_ir.automata.pool import Pool
from sgc_ir.automata.regex import regex_expression
from sgc_ir.errors import ConstraintError


def _check(pattern: str, letters: str, longest: int) -> None:
    automaton = Automaton(lambda pool: terminal_pattern(pool, pattern), b"")
    compiled = re.compile(pattern)
    for size in range(1, longest + 1):
        for word in itertools.product(letters, repeat=size):
            text = "".join(word)
            match = compiled.match(text)
            expected = match is not None and match.end() == size
            assert accepts(automaton, text) == expected, text


@pytest.mark.parametrize(
    ("pattern", "letters"),
    [
        ("a|ab", "ab"),
        ("a*?b", "ab"),
        ("a+?", "ab"),
        ("(a|ab)(c|bcd)", "abcd"),
        ("(ab?){1,3}(bc)?", "abc"),
        ("a(b|bc)*?c", "abc"),
        ("(?:a|b?c?)*b", "abc"),
        ("(?:ab|a)(?:bc|c)?", "abc"),
        ("a(?!b)[ab]c", "abc"),
        ("(?:(?!b)[abc])+b", "abc"),
        ('".*?(?<!\\\\)(\\\\\\\\)*?"', '"\\a'),
        (r"/\*(?:.|\n)*?\*/", "/*\n"),
        (r"[+-]?\d+(\.\d*)?(e\d+)?", "1.e-"),
    ],
)
def test_patterns(pattern: str, letters: str) -> None:
    _check(pattern, letters, 6)


_PARTS = st.recursive(
    st.sampled_from(["a", "b", "c", "ab", "[ab]", "."]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda some: f"(?:{'|'.join(some)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{1,2}", "{2,3}?"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=6,
)


@settings(max_examples=80, deadline=None)
@given(_PARTS)
def test_random_patterns(pattern: str) -> None:
    try:
        _check(pattern, "abc", 5)
    except ConstraintError as error:
        if error.kind != "unsupported" and not re.fullmatch(pattern, ""):
            raise


@pytest.mark.parametrize("quote", ['"', "'"])
def test_known_strings_are_what_they_stand_for(quote: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = f"{quote}.*?(?<!\\\\)(\\\\\\\\)*?{quote}"
    known = preferred._KNOWN[pattern]
    monkeypatch.setattr(preferred, "_KNOWN", {})
    pool = Pool(DEFAULT_LIMITS)
    first, second = terminal_pattern(pool, pattern), regex_expression(pool, known)
    assert not pool.is_alive(pool.difference(first, second))
    assert not pool.is_alive(pool.difference(second, first))


@pytest.mark.parametrize("pattern", ["(?<!a)b", "a\\b", "^a", "a$", "a(?=b)", "(a)\\1", "(?:|a)*b"])
def test_what_looks_outside_is_refused(pattern: str) -> None:
    with pytest.raises(ConstraintError) as caught:
        terminal_pattern(Pool(DEFAULT_LIMITS), pattern)
    assert caught.value.kind == "unsupported"
