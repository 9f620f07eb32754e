"""The default model in float32 under constraints: valid JSON, equal to a plain loop over all
tokens, as free as the constraint lets it be, and the same with and without jumps.

The long tests read `cases/regex_cases.jsonl` and `data/jsonschema/maskbench_sample.jsonl` of the
folder that SGC_SHARED names (default: `shared` beside the checkout), and skip when it is absent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from support.constrained import Oracle
from support.jumps import Bench
from support.on_off import Answer, Asked, answer_all, differences, read_cases
from support.reference import default_model_reference

from sgc_ir.errors import ConstraintError
from sgc_ir.params import CallResult
from sgc_runtime.model.loader import LoadedModel, load_model
from sgc_runtime.models import DEFAULT_MODEL, resolve
from sgc_runtime.tokenizer.tokenizer import Tokenizer, load_tokenizer

pytestmark = pytest.mark.model

SCHEMAS: tuple[dict[str, Any], ...] = (
    {"type": "boolean"},
    {"type": "integer", "minimum": 3, "maximum": 40},
    {"enum": ["red", "green", {"mixed": [1, 2.5, None]}]},
    {"type": "string", "minLength": 2, "maxLength": 8, "pattern": "[aeiou]"},
    {"type": "string", "format": "date"},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3},
    {"type": "array", "prefixItems": [{"const": 1}, {"type": "null"}], "maxItems": 2},
    {
        "type": "object",
        "properties": {"x": {"type": "integer", "multipleOf": 5, "minimum": 0, "maximum": 95}},
        "required": ["x"],
        "additionalProperties": False,
    },
    {
        "type": "object",
        "properties": {"kind": {"const": "a"}, "size": {"enum": [1, 2, 3]}},
        "required": ["kind", "size"],
        "additionalProperties": False,
    },
    {"anyOf": [{"type": "null"}, {"type": "integer", "exclusiveMinimum": 0, "maximum": 2}]},
)
GREEDY_CASES = (
    ("The capital of France is", r" (Paris|London)[.,]"),
    ("Colours: ", "(red|green|blue)(, (red|green|blue)){1,2}"),
    ("Born on ", r"[0-9]{4}-[0-9]{2}"),
)
FREE_PROMPTS = (
    "The capital of France is",
    "The cat sat on the",
    "Once upon a time",
    "To be or not to be,",
    "The president of the United States",
    "def add(a, b):",
    "1, 2, 3, 4,",
    "Dear Sir or Madam,",
    "In 1969 the first man",
    "She opened the door and",
    "My favourite food is",
    "Ingredients: flour,",
)
FREE_PATTERNS = (
    r"(?s).*",
    r"[\w ,.;:'\"!?()\-\n]*",
    r"[^<>{}|]*",
    r"( ?[A-Za-z]+[,.]?| ?[0-9]+[,.]?)*",
    r"\s?[^\n]{0,40}",
)
TINY: dict[str, Any] = {"kv_tokens": 110, "reserve": 0.0}
CASE_TOKENS = 24


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return load_tokenizer(resolve(DEFAULT_MODEL))


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return load_model(resolve(DEFAULT_MODEL), "float32", "cpu")


Calls = Sequence[tuple[str, dict[str, Any]]]


def results(model: LoadedModel, tokenizer: Tokenizer, calls: Calls) -> list[CallResult]:
    """What comes of each prompt and its parameters, all together."""
    asked = [Asked(str(i), *call, seed=i) for i, call in enumerate(calls)]
    found = [answer.result for answer in answer_all(model, tokenizer, asked, len(asked))[0]]
    assert all(isinstance(result, CallResult) for result in found), found
    return [result for result in found if isinstance(result, CallResult)]


def assert_valid(schema: Any, result: CallResult) -> None:
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    value = json.loads(result.text)
    jsonschema.Draft202012Validator(schema, format_checker=checker).validate(value)


def fault(schema: Any, answer: Answer) -> str | None:
    """What is wrong with an answer, if anything is."""
    result = answer.result
    if isinstance(result, ConstraintError):
        return None if result.kind in ("unsupported", "limit") else str(result)
    assert result is not None
    if not result.complete:
        return None if result.finish_reason == "length" else f"{result} ended too early"
    try:
        assert_valid(schema, result)
    except (ValueError, jsonschema.ValidationError) as error:
        return f"{result.text!r}: {error}"
    return None


def test_json_is_valid(model: LoadedModel, tokenizer: Tokenizer) -> None:
    calls = [("As JSON: ", {"json_schema": s, "max_tokens": 32}) for s in SCHEMAS]
    for schema, result in zip(SCHEMAS, results(model, tokenizer, calls), strict=True):
        assert result.complete, (schema, result.text)
        assert_valid(schema, result)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_300_values_under_schemas_that_people_wrote(
    model: LoadedModel, tokenizer: Tokenizer
) -> None:
    """Greedy and seeded; texts that `max_tokens` cuts off do not count."""
    cases = read_cases("data/jsonschema/maskbench_sample.jsonl")
    asked, schemas = [], []
    for seed, temperature in enumerate((0.0, 1.0, 1.0)):
        for case in cases:
            schemas.append(case["schema"])
            params = {"json_schema": case["schema"], "temperature": temperature, "max_tokens": 160}
            asked.append(Asked(case["id"], "An example as JSON: ", params, seed))
    answers, _ = answer_all(model, tokenizer, asked, len(asked), kv_tokens=30_000)
    wrong, valid, refused = [], 0, set()
    for call, schema, answer in zip(asked, schemas, answers, strict=True):
        if (what := fault(schema, answer)) is not None:
            wrong.append(f"{call.name}, T={call.params['temperature']}: {what}")
        if isinstance(answer.result, ConstraintError):
            refused.add(f"{call.name}: {answer.result}")
        else:
            valid += what is None and answer.result is not None and answer.result.complete
    print(f"{valid} valid of {len(asked)}; {len(refused)} schemas refused", *refused, sep="\n")
    assert not wrong, "\n".join(wrong)
    assert len(refused) <= 20
    assert valid >= 300


class ModelOracle(Oracle):
    """`Oracle` for the default model, in float32 by transformers."""

    def __init__(self) -> None:
        path = Path(resolve(DEFAULT_MODEL))
        self._tokenizer = load_tokenizer(path)
        self._model = default_model_reference(path)
        self._bench = Bench(self._tokenizer)


def test_greedy_is_the_best_token_that_is_legal(model: LoadedModel, tokenizer: Tokenizer) -> None:
    oracle = ModelOracle()
    calls = [(prompt, {"regex": pattern, "max_tokens": 8}) for prompt, pattern in GREEDY_CASES]
    for (prompt, pattern), result in zip(
        GREEDY_CASES, results(model, tokenizer, calls), strict=True
    ):
        assert list(result.token_ids) == oracle.greedy(prompt, pattern, 8), pattern


def test_free_text_that_is_legal_stays(model: LoadedModel, tokenizer: Tokenizer) -> None:
    """Where the unconstrained text is legal and its ids are canonical: under patterns that allow
    much, and under one of the text itself and other ones, most of which is forced."""
    free = results(model, tokenizer, [(prompt, {"max_tokens": 10}) for prompt in FREE_PROMPTS])
    texts = [result.text for result in free]
    calls, expected = [], []
    for prompt, result in zip(FREE_PROMPTS, free, strict=True):
        ids, text = list(result.token_ids), result.text
        if tokenizer.encode(text, start=False) != ids or result.finish_reason != "length":
            continue
        listed = "|".join(re.escape(text + end) for text in texts for end in ("", " or", "s"))
        for pattern in (*FREE_PATTERNS, listed):
            if re.fullmatch(pattern, text):
                calls.append((prompt, {"max_tokens": 10, "regex": pattern}))
                expected.append((text, ids))
    assert len(calls) > 40, "too few cases show anything"
    assert sum(len(pattern["regex"]) > 300 for _, pattern in calls) > 8
    found = results(model, tokenizer, calls)
    wrong = [
        f"{call}: {text!r} {ids}, now {result.text!r} {list(result.token_ids)}"
        for call, (text, ids), result in zip(calls, expected, found, strict=True)
        if (result.text, list(result.token_ids)) != (text, ids)
    ]
    assert not wrong, "\n".join(wrong)
    assert sum(result.usage.forced_tokens > 0 for result in found) > 4


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_jumps_change_nothing_in_any_regex_case(model: LoadedModel, tokenizer: Tokenizer) -> None:
    """Greedy and seeded; alone and together, with so little memory that rows are retracted."""
    cases = read_cases("cases/regex_cases.jsonl")
    asked = [
        Asked(
            f"{case['id']} {case['regex']!r}",
            "Text: ",
            {"regex": case["regex"], "max_tokens": CASE_TOKENS, "temperature": temperature},
            seed,
        )
        for seed, temperature in enumerate((0.0, 1.0))
        for case in cases
    ]
    expected, _ = answer_all(model, tokenizer, asked, len(asked), jump=True)
    refused = [call.name for call, a in zip(asked, expected, strict=True) if _is_refused(a)]
    assert len(refused) <= 2 * 7, refused
    every = len(asked)
    for count, batch, options in (
        (every, every, {"jump": False}),
        (every, 16, {"jump": True, **TINY}),
        (every, 16, {"jump": False, **TINY}),
        (every // 4, 1, {"jump": False}),
    ):
        step = every // count
        found, stats = answer_all(model, tokenizer, asked[::step], batch, **options)
        wrong = differences(asked[::step], expected[::step], found)
        print(f"batch {batch}, {options}: {len(wrong)} of {len(found)} differ", flush=True)
        assert not wrong, "\n".join(wrong)
        assert (stats["retractions"] > 0) == ("reserve" in options)


def _is_refused(answer: Answer) -> bool:
    return isinstance(answer.result, ConstraintError)
