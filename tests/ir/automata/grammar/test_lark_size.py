"""Texts on which a reader of grammars would stay for minutes or for ever."""

import pytest

from sgc_ir.automata.grammar.grammar import grammar_automaton, read_grammar
from sgc_ir.errors import ConstraintError

MALFORMED = {
    "a string without an end": 'start: "' + "\\" * 400,
    "a pattern without an end": 'start: "a"\n | /' + "\\" * 400,
    "a long name": "a" * 90_000,
    "many names with brackets": "a{" * 45_000,
    "quotes and backslashes": '"\\' * 45_000,
    "slashes and backslashes": "/\\" * 45_000,
}
LIMITED = {
    "empty lines": 'start: "a"' + "\n" * 90_000,
    "a long text": "root ::= " + '"a" ' * 30_000,
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_never_ends_is_malformed(name: str) -> None:
    with pytest.raises(ConstraintError) as caught:
        grammar_automaton(MALFORMED[name])
    assert caught.value.kind == "malformed"
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", LIMITED)
def test_what_is_too_long_is_a_limit(name: str) -> None:
    with pytest.raises(ConstraintError) as caught:
        grammar_automaton(LIMITED[name])
    assert caught.value.kind == "limit"


@pytest.mark.parametrize(
    "text",
    [
        r'start: "a\\" B' + '\nB: "b"',
        r"start: /a\/\\/ B" + '\nB: "b"',
        r"start: /[\"]/ B" + '\nB: "b" // not a "string',
        'start: "//" B\nB: "b" # not a /pattern',
        "start: /a\\\n b/x B\nB: /b/i",
        "start: _sep{A, B}\n_sep{x, y}: x (y x)*\nA: /a/\nB: /b/",
    ],
)
def test_what_has_an_end_is_read(text: str) -> None:
    assert "B" in read_grammar(text).terminals
