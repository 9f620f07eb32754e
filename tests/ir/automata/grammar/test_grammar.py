"""Grammars that people write, hostile ones, and how large their automata become."""

from __future__ import annotations

import json
import random

import pytest
from ir.automata.grammar.lark_oracle import recogniser
from support.regexes import accepts, mutated, sampled

from sgc_ir.automata.grammar.grammar import grammar_automaton
from sgc_ir.errors import ConstraintError

JSON = r"""
?start: value
?value: object | array | ESCAPED_STRING -> string | SIGNED_NUMBER | "true" | "false" | "null"
array: "[" [value ("," value)*] "]"
object: "{" [pair ("," pair)*] "}"
pair: ESCAPED_STRING ":" value
%import common (ESCAPED_STRING, SIGNED_NUMBER, WS)
%ignore WS
"""
ARITHMETIC = """
start: sum
?sum: product | sum "+" product -> add | sum "-" product -> sub
?product: atom | product "*" atom | product "/" atom
?atom: NUMBER | "-" atom | NAME | "(" sum ")"
%import common.CNAME -> NAME
%import common.NUMBER
%import common.WS_INLINE
%ignore WS_INLINE
"""
SQL = """
start: "select"i columns "from"i NAME where? ";"
columns: "*" | _list{column}
column: NAME ["as"i NAME]
where: "where"i condition
condition: condition ("and"i | "or"i) condition | NAME OP value | "(" condition ")"
value: INT | STRING | NAME
_list{item}: item ("," item)*
OP: "=" | "<" | "<=" | ">"
STRING: /'[^']*'/
NAME: /[a-z_]+/
%import common (INT, WS, SQL_COMMENT)
%ignore WS
%ignore SQL_COMMENT
"""
LISP = """
start: form*
form: "(" form* ")" | "'" form | SYMBOL | INT | ESCAPED_STRING
SYMBOL: /[a-z+*-]+/
%import common (INT, ESCAPED_STRING, WS, SH_COMMENT)
%ignore WS
%ignore SH_COMMENT
"""
CASES = [
    (JSON, ['{"a": [1, 2.5e3, {}], "b\\"": "x"}', " null ", '["\\\\", "é"]', "-.5"]),
    (ARITHMETIC, ["1 + 2*(x - -3)", "((a))", "a+b+c*d/2.5e1"]),
    (SQL, ["select a, b as c from t -- x\n;", "SELECT*from t where a<=1 and (b='x' or c=d);"]),
    (LISP, ["", '(f \'x (g 1 "s)")) # end', "# only\n", "(a\n b) c"]),
]


@pytest.mark.parametrize(("grammar", "texts"), CASES)
def test_against_lark(grammar: str, texts: list[str]) -> None:
    takes, automaton = recogniser(grammar), grammar_automaton(grammar)
    rng = random.Random(5)
    for text in texts:
        assert takes(text), text
        assert accepts(automaton, text), text
    found = sampled(automaton, rng, 30, 24)
    near = [mutated(text, rng, " \n-(a1\"'#,") for text in [*texts * 6, *found]]
    for text in [*found, *near]:
        assert accepts(automaton, text) == takes(text), text


def test_nesting_is_linear() -> None:
    automaton = grammar_automaton(JSON)
    sizes = []
    for depth in (500, 1000):
        assert accepts(automaton, "[" * depth + "1" + "]" * depth)
        assert not accepts(automaton, "[" * depth + "1" + "]" * (depth - 1))
        sizes.append(automaton.num_states)
    assert sizes[1] < 2.2 * sizes[0]


def test_states_of_a_long_text_are_few() -> None:
    rng = random.Random(1)
    rows = [{"name": f"n{rng.random()}", "tags": [rng.randrange(9), None]} for _ in range(2000)]
    automaton = grammar_automaton(JSON)
    assert accepts(automaton, json.dumps(rows, indent=1))
    few = automaton.num_states
    assert few < 1000
    assert accepts(automaton, json.dumps(rows * 2, indent=1))
    assert automaton.num_states == few


@pytest.mark.parametrize("side", ["e{n} '+' e{i}", "e{i} '+' e{n}"])
def test_levels_of_precedence_stay_small(side: str) -> None:
    rules = [
        f"e{i}: " + side.format(i=i, n=i + 1).replace("'+'", f'"{op}"') + f" | e{i + 1}"
        for i, op in enumerate("+-*/%^&|<>")
    ]
    automaton = grammar_automaton(
        "start: e0\n" + "\n".join(rules) + '\ne10: "a".."z" | "(" e0 ")"\n'
    )
    assert accepts(automaton, "a+b*(c-(d%e)*f)<g>h" + "&x|y^z" * 50)
    assert automaton.num_states < 60


def test_ambiguous_grammars_keep_few_states() -> None:
    grammar = 'start: e\ne: e "+" e | e "*" e | "-" e | e "?" e ":" e | e "[" e "]" | "x"'
    automaton = grammar_automaton(grammar)
    assert accepts(automaton, "x+x*-x?x+x:x[x]" + "+x*x" * 500)
    assert automaton.num_states < 60


def test_what_closes_a_nesting_is_forced() -> None:
    automaton = grammar_automaton('start: "a" start? "b"')
    assert automaton.forced(automaton.walk(automaton.start, b"aab"))[0] == b"b"


def test_equal_grammars_name_their_states_alike() -> None:
    first, second = grammar_automaton(LISP), grammar_automaton(LISP)
    second.walk(second.start, b"'x")
    states = [a.walk(a.start, b"(# a\n(b 1") for a in (first, second)]
    assert first.signature(states[0]) == second.signature(states[1])
    assert first.digest == second.digest


@pytest.mark.parametrize(
    ("grammar", "kind", "where"),
    [
        ('start: "a', "malformed", "line 1, column 8"),
        ('start: "a"\n  | "b" -> x\nfoo 1', "malformed", "line 3, column 5"),
        ("start: b", "malformed", ""),
        ('foo: "a"', "malformed", ""),
        ("", "malformed", ""),
        ("start: A\nA: /a*/", "malformed", "terminal A"),
        ("start: /(/", "malformed", "terminal /(/, position 0"),
        ('start: "a"~3..2', "malformed", "line 1, column 11"),
        ("start: A\nA: /(?<=b)a/", "unsupported", "terminal A"),
        ("start: A\nA: /(a)\\1/", "unsupported", "terminal A"),
        ('start: "a"\n%import .foo.bar\n', "unsupported", ""),
        ("start: BAR\n%import \\\n foo.BAR\n", "unsupported", ""),
        ("%declare X\nstart: X", "unsupported", ""),
        ("start: STRING\n%import python.STRING\n", "unsupported", "terminal STRING"),
        ("start: start", "unsatisfiable", ""),
        ('start: "a" b\nb: "c" b', "unsatisfiable", ""),
    ],
)
def test_refused(grammar: str, kind: str, where: str) -> None:
    with pytest.raises(ConstraintError) as caught:
        grammar_automaton(grammar)
    assert (caught.value.kind, caught.value.where) == (kind, where)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "grammar",
    [
        'start: a{"x"}\na{x}: "y" | a{b{x}}\nb{x}: x "z"\n',
        "start: " + "(" * 3000 + '"a"' + ")" * 3000,
        "start: A30\nA0: /ab/\n" + "\n".join(f"A{i}: A{i - 1} A{i - 1}" for i in range(1, 31)),
        "start: " + "|".join(f'"w{i}"' for i in range(30_000)),
        "root ::= " + "(" * 3000 + '"a"' + ")" * 3000,
    ],
)
def test_hostile_grammars_end_at_a_limit(grammar: str) -> None:
    with pytest.raises(ConstraintError) as caught:
        grammar_automaton(grammar)
    assert caught.value.kind == "limit"


def test_what_lark_multiplies_out_stays_small() -> None:
    optional = "start: " + " ".join(f'"{c}"?' for c in "abcdefghijklmnopqrstuvwxyz")
    assert accepts(grammar_automaton(optional), "acez")
    counted = grammar_automaton('start: (("a"~9)~9)~49 "b"~0..100000')
    assert accepts(counted, "a" * (9 * 9 * 49))
    rules = [f'r{i}: r{i + 1} "{i}" | r{i + 1} r{i + 1}' for i in range(20)]
    assert accepts(grammar_automaton("start: r0\n" + "\n".join(rules) + '\nr20: "a"?'), "a10")
