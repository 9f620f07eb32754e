"""What is known of constraints before a run: refusals by name and place, and the empty text."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sgc_ir.automata.automaton import Automaton
from sgc_ir.automata.check import constraint_params, constraint_problem, facts_of
from sgc_ir.automata.compile import constraint_automaton
from sgc_ir.automata.schema.compile import schema_automaton
from sgc_ir.automata.schema.source import schema_source
from sgc_ir.errors import ConstraintError
from sgc_ir.params import SamplingParams


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"regex": "(a"}, "regex: position 0: missing )"),
        ({"regex": r"a(?<=b)"}, "regex: "),
        ({"regex": "a(?!)"}, "regex: no text is legal"),
        ({"json_schema": {"type": "strin"}}, "json_schema: #/type: "),
        ({"json_schema": {"properties": {"a": {"format": "x"}}}}, "#/properties/a/format: "),
        ({"json_schema": {"minimum": 3, "maximum": 2, "type": "number"}}, "json_schema: #: no"),
        ({"grammar": "start: a"}, "grammar: "),
        ({"grammar": 'start: start "x"'}, "grammar: no text is legal"),
        ({"json_schema": {"const": float("nan")}}, "json_schema: "),
    ],
)
def test_what_cannot_be_used_is_named_with_its_place(values: dict[str, Any], words: str) -> None:
    problem = constraint_problem(values)
    assert problem is not None
    assert words in problem
    assert "\n" not in problem
    assert constraint_problem(values) == problem


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"max_tokens": 3},
        {"regex": "a+"},
        {"json_schema": True, "json_style": "pretty"},
        {"grammar": 'start: "a" start | "b"'},
        {"dtype": "int"},
        {"choices": ("a", "b")},
    ],
)
def test_what_can_be_used_has_no_problem(values: dict[str, Any]) -> None:
    assert constraint_problem(values) is None


@pytest.mark.parametrize(
    ("params", "takes_nothing"),
    [
        (SamplingParams(regex="(ab)*"), True),
        (SamplingParams(regex='\\{"a": [0-9]\\}'), False),
        (SamplingParams(regex="無線|無緑"), False),
        (SamplingParams(dtype="bool"), False),
        (SamplingParams(dtype="str"), False),
        (SamplingParams(json_schema={"const": [1]}), False),
        (SamplingParams(json_schema={"const": [1, 2]}, json_style="compact"), False),
        (SamplingParams(grammar='start: "x"?'), True),
    ],
)
def test_facts(params: SamplingParams, takes_nothing: bool) -> None:
    facts = facts_of(params)
    assert (facts.problem, facts.takes_nothing) == (None, takes_nothing)


def test_parameters_of_a_constraint() -> None:
    assert constraint_params({"max_tokens": 3, "stop": ("a",)}) is None
    assert constraint_params({"regex": "a", "max_tokens": 3}) == SamplingParams(regex="a")


class _Odd:
    """No type that a schema can be made of."""


_DEEP: dict[str, Any] = {}
for _ in range(200_000):
    _DEEP = {"items": _DEEP}


SCHEMAS = (_Odd(), _Odd, '{"a":', "[1]", {"a": {1}}, _DEEP, 3, len, {"$schema": 3})
REGEXES = ("(a", "a(?!)", r"(a)\1", "(?>a)", "a**", "(?<=a*)b", "(" * 300, "a{2,1}", "[b-a]")
GRAMMARS = (
    *("", "start: a", 'start: start "x"', "start: /(/", "%import x.y", 'start: "a', "start: A"),
    *("root ::= a", 'root ::= "a"{3,1}', "start: " + "(" * 900),
)


def _made(kind: str, source: Any) -> Automaton:
    if kind == "json_schema":
        return schema_automaton(schema_source(source))
    return constraint_automaton(SamplingParams(**{kind: source}))


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        *(("json_schema", value) for value in SCHEMAS),
        *(("regex", text) for text in REGEXES),
        *(("grammar", text) for text in GRAMMARS),
    ],
)
def test_messages_are_one_line_with_a_next_step(kind: str, source: Any) -> None:
    with pytest.raises(ConstraintError) as caught:
        _made(kind, source)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 400
    assert not re.search(r"0x[0-9a-f]+|recursion|Traceback|RecursionError", message)
    assert ";" in message  # the cause; what to do
