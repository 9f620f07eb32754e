"""Rules for gen's arguments: what is accepted, how it is normalised, what a refusal says."""

from __future__ import annotations

import dataclasses
from typing import Any, NewType, Optional

import pydantic
import pytest

from sgc_ir.checks import RULES, check_param, exact_problem
from sgc_ir.params import PARAM_NAMES, SamplingParams, normalize


@dataclasses.dataclass
class Pet:
    name: str
    age: int = 3


class Person(pydantic.BaseModel):
    name: str
    pets: list[Pet]


def test_there_is_a_rule_for_each_parameter() -> None:
    assert set(RULES) == set(PARAM_NAMES)


def test_defaults_pass_their_own_rules() -> None:
    defaults = SamplingParams()
    assert defaults.override(defaults.to_dict()) == defaults


@pytest.mark.parametrize(
    ("name", "value", "normal"),
    [
        ("max_tokens", 0, 0),
        ("n", 3, 3),
        ("stop", "\n", ("\n",)),
        ("stop", ["a", "b"], ("a", "b")),
        ("stop", [], ()),
        ("stop_token_ids", 7, (7,)),
        ("stop_token_ids", [7, 8], (7, 8)),
        ("stop_regex", "a+", ("a+",)),
        ("stop_regex", ["(?=x)"], ("(?=x)",)),
        ("temperature", 0, 0.0),
        ("temperature", 0.7, 0.7),
        ("top_p", 1, 1.0),
        ("top_k", -1, -1),
        ("logit_bias", {5: 1, "7": -2.5}, {"5": 1.0, "7": -2.5}),
        ("seed", 2**63 - 1, 2**63 - 1),
        ("regex", r"\d+", r"\d+"),
        ("json_schema", True, True),
        ("json_schema", {"enum": (1, 2)}, {"enum": [1, 2]}),
        ("json_schema", '{"type": "string"}', {"type": "string"}),
        ("grammar", 'start: "a" | B\nB: /b+/\n%import common.WS', None),
        ("choices", ["a", "b"], ("a", "b")),
        ("method", "greedy_token_selection", None),
        ("dtype", int, "int"),
        ("dtype", "str", "str"),
        ("dtype", bool, "bool"),
        ("heal", True, True),
    ],
)
def test_values_are_normalised(name: str, value: Any, normal: Any) -> None:
    expected = value if normal is None else normal
    result = check_param(name, value)
    assert result == expected
    assert type(result) is type(expected)
    assert check_param(name, result) == result


@pytest.mark.parametrize(
    "source",
    [Person, Pet, list[Pet], int | None, list[Pet] | None, NewType("Age", int), Optional[int]],  # noqa: UP045
)
def test_types_become_schemas(source: Any) -> None:
    schema = check_param("json_schema", source)
    assert isinstance(schema, dict)
    wanted = pydantic.TypeAdapter(source).json_schema()
    for part in (wanted, *wanted.get("$defs", {}).values()):
        if "properties" in part:
            part["additionalProperties"] = False
    assert schema == wanted


def test_a_model_that_takes_more_stays_open() -> None:
    class Part(pydantic.BaseModel):
        x: int

    class Open(pydantic.BaseModel, extra="allow"):
        type: str = "object"  # a field, not the keyword
        default: Part  # likewise

    schema = check_param("json_schema", Open)
    assert schema["additionalProperties"] is True
    assert schema["$defs"]["Part"]["additionalProperties"] is False
    assert schema["properties"]["type"] == {
        "default": "object",
        "title": "Type",
        "type": "string",
    }


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("colour", 1, "unknown parameter 'colour'"),
        ("max_tokens", -1, "max_tokens=-1: expected an integer >= 0"),
        ("max_tokens", 1.0, "max_tokens=1.0: expected an integer"),
        ("max_tokens", True, "max_tokens=True: expected an integer"),
        ("max_tokens", "5", "expected an integer"),
        ("n", 0, "n=0"),
        ("n", 10**9, "n=1000000000: expected an integer from 1 to 10000"),
        ("stop", ["a", ""], "stop: the empty string"),
        ("stop", "", "stop: the empty string"),
        ("stop", [3], "stop: 3 is not a string"),
        ("stop", 3, "stop=3: expected a string or a list"),
        ("stop_token_ids", [-1], "stop_token_ids=-1"),
        ("stop_regex", "(", "not a regular expression"),
        ("stop_regex", "a*", "matches the empty text"),
        ("temperature", -0.1, "temperature=-0.1: expected a finite number from 0"),
        ("temperature", float("nan"), "temperature=nan"),
        ("temperature", float("inf"), "temperature=inf"),
        ("temperature", 10**400, "temperature="),
        ("temperature", True, "temperature=True"),
        ("top_p", 0, "top_p=0: expected a finite number above 0 to 1"),
        ("top_p", 1.5, "top_p=1.5"),
        ("top_k", -2, "top_k=-2"),
        ("min_p", 2, "min_p=2"),
        ("presence_penalty", 3, "from -2 to 2"),
        ("repetition_penalty", 0, "repetition_penalty=0"),
        ("logit_bias", [1], "expected a mapping"),
        ("logit_bias", {"the": 1}, "key 'the' is not a token id"),
        ("logit_bias", {1: 500}, "logit_bias[1]=500"),
        ("ignore_eos", 1, "ignore_eos=1: expected True or False"),
        ("seed", -1, "seed=-1"),
        ("seed", 2**63, "seed="),
        ("regex", 3, "as a string"),
        ("json_schema", "{", "not a JSON schema"),
        ("json_schema", "[1]", "no object, true or false"),
        ("json_schema", (), "json_schema=[]: not a JSON schema: it is of type list"),
        ("json_schema", object(), "pydantic model or a dataclass"),
        ("json_schema", {"a": {1, 2}}, "not a JSON schema"),
        ("json_schema", {"const": float("nan")}, "not a JSON schema"),
        ("json_style", "wide", "compact, spaced, pretty"),
        ("grammar", 3, "a grammar as a string"),
        ("choices", [], "choices is empty"),
        ("choices", "abc", "expected a list"),
        ("choices", ["a", "a"], "'a' stands there twice"),
        ("choices", ["a", ""], "empty string"),
        ("choices", ["a", 1], "1 is not a string"),
        ("method", "best", "token_length_normalized, greedy_token_selection"),
        ("dtype", list, "int, float, bool, str"),
        ("dtype", "int64", "int, float, bool, str"),
        ("heal", None, "heal=None"),
    ],
)
def test_refusals_name_the_parameter_on_one_line(name: str, value: Any, words: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        check_param(name, value)
    message = str(caught.value)
    assert words in message
    assert name in message
    assert "\n" not in message
    assert len(message) < 400


def test_a_gen_takes_one_constraint() -> None:
    assert normalize({"regex": "a", "dtype": None}) == {"regex": "a"}
    with pytest.raises(ValueError, match="regex and dtype together"):
        normalize({"regex": "a", "dtype": int})
    with pytest.raises(ValueError, match="n > 1 together with choices"):
        normalize({"n": 2, "choices": ["a"]})
    style = {"json_style": "compact"}
    assert SamplingParams(json_schema=True).override(style).json_style == "compact"
    with pytest.raises(ValueError, match="json_style goes with json_schema"):
        SamplingParams(regex="a").override(style)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "a gen without a constraint"),
        ({"dtype": "float"}, "dtype=float has too many"),
        ({"choices": ("a", "b")}, "together with choices"),
        ({"regex": "a|b", "logit_bias": {"3": 1.0}, "min_tokens": 2}, "min_tokens, logit_bias"),
        ({"regex": "a|b", "temperature": 0.5, "top_k": 2, "stop": ("c",)}, None),
        ({"dtype": "bool"}, None),
    ],
)
def test_what_an_exact_distribution_refuses(values: dict[str, Any], words: str | None) -> None:
    problem = exact_problem(SamplingParams(**values, distribution="exact"))
    assert problem is None if words is None else problem is not None and words in problem
    assert exact_problem(SamplingParams(**values)) is None
