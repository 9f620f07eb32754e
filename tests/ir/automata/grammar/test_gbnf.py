"""GBNF and EBNF, texts judged by hand and by other parsers."""

from __future__ import annotations

import json

import pytest
from support.regexes import accepts

from sgc_ir.automata.grammar.grammar import grammar_automaton
from sgc_ir.errors import ConstraintError

JSON = r"""
root   ::= object          # an object at the top
value  ::= object | array | string | number | ("true" | "false" | "null") blank
object ::=
  "{" blank (
      string ":" blank value
      ("," blank string ":" blank value)*
  )? "}" blank
array  ::= "[" blank ( value ("," blank value)* )? "]" blank
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" blank
number ::= "-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]+)? ([eE] [-+]? [0-9]{1,3})? blank
blank  ::= | " " | "\n" [ \t]{0,20}
"""
LIST = 'root ::= item+\nitem ::= "- " [^\\r\\n\\u2028]+ "\\n"\n'
MATH = """root ::= (expr "=" num "\\n")+
expr ::= term ([-+*/] term)*
term ::= num | "(" expr ")"
num ::= [0-9]+
"""
CHESS = """root ::= "1. " move " " move ([2-9] ". " move " " move "\\n"?){0,2}
move ::= (pawn | piece | "O-O" "-O"?) [+#]?
piece ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
"""


def test_json() -> None:
    automaton = grammar_automaton(JSON)
    for value in ({}, {"a": [1, -2.5, {}]}, {"é日": None, "b": [True, "x\\y\n"]}):
        assert accepts(automaton, json.dumps(value))
        assert accepts(automaton, json.dumps(value, ensure_ascii=False))
    for text in ("[]", '{"a":}', '{"a": 01}', '{"\x7f": 1}', '{"a":  1}', '{"\\q": 1}', ""):
        assert not accepts(automaton, text)


@pytest.mark.parametrize(
    ("grammar", "legal", "illegal"),
    [
        (LIST, ["- a\n", "- é\n- b\n"], ["- a", "- \n", "- a\u2028\n", "a\n"]),
        (MATH, ["1+(2*3)=7\n", "4=4\n5=5\n"], ["1+=2\n", "(1=1\n", "1=1"]),
        (CHESS, ["1. e4 e5", "1. Nf3 O-O-O+2. exd5 c8=Q#\n"], ["1. e9 e5", "1. e4"]),
        ('root ::= "a"{2}"b"{1,}.?', ["aab", "aabbb", "aabbé", "aab\n"], ["ab", "aa", "aabéé"]),
        ("root ::= [^a-c\\]-] [a-]", ["d-", "\n-", "za"], ["a-", "]-", "--", "dd"]),
        ('root ::= root "," "a" | ""', ["", ",a", ",a,a"], [",", "a"]),
        ('root::=x-1|y_2 x-1::="\\U0001F600" y_2::="\\t\\x41"', ["😀", "\tA"], ["A"]),
    ],
)
def test_texts(grammar: str, legal: list[str], illegal: list[str]) -> None:
    automaton = grammar_automaton(grammar)
    assert [text for text in legal if not accepts(automaton, text)] == []
    assert [text for text in illegal if accepts(automaton, text)] == []


@pytest.mark.parametrize(
    ("grammar", "kind", "where"),
    [
        ('root ::= "a', "malformed", "line 1, column 10"),
        ("root ::= x", "malformed", ""),
        ('x ::= "a"', "malformed", ""),
        ('root ::= "b"\nroot ::= [z-a]', "malformed", "line 2, column 1"),
        ("root ::= [z-a]", "malformed", "line 1, column 10"),
        ("root ::= []", "malformed", "line 1, column 10"),
        ('root ::= "\\q"', "malformed", "line 1, column 10"),
        ('root ::= "\\ud800"', "malformed", "line 1, column 10"),
        ('root ::= "a"{3,2}', "malformed", "line 1, column 14"),
        ('root ::= "a" )', "malformed", "line 1, column 14"),
        ('root ::= (= "a") "b"', "unsupported", "line 1"),
        ('root ::= "a"\n  <think>', "unsupported", "line 2"),
        ('root ::= root "a"', "unsatisfiable", ""),
    ],
)
def test_refused(grammar: str, kind: str, where: str) -> None:
    with pytest.raises(ConstraintError) as caught:
        grammar_automaton(grammar)
    assert (caught.value.kind, caught.value.where) == (kind, where)
    assert "\n" not in str(caught.value)
