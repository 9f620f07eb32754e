"""The default model in float32 under constraints: valid JSON, equal to a plain loop over all
tokens, as free as the constraint lets it be, and the same with and without jumps.

The long tests read `cases/regex_cases.jsonl` and `data/jsonschema/maskbench_sample.jsonl` of the
folder that SGC_SHARED names (default: `shared` beside the checkout), and skip when it is absent.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from support.constrained import Oracle
from support.jumps import Bench
from support.local import gen, run, stream
from support.reference import default_model_reference
from support.shared_model import SharedModel

from sgc_ir.errors import BackendError, ConstraintError
from sgc_ir.params import CallResult
from sgc_runtime.model.loader import LoadedModel, load_model
from sgc_runtime.models import DEFAULT_MODEL, resolve
from sgc_runtime.tokenizer.tokenizer import load_tokenizer

pytestmark = pytest.mark.model

SHARED = Path(os.environ.get("SGC_SHARED", Path(__file__).resolve().parents[3] / "shared"))
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
FREE_CASES = (
    ("The capital of France is", r"[A-Za-z ,.\n]*"),
    ("The cat sat on the", r"[a-z, ']*"),
)
TINY: dict[str, Any] = {"kv_tokens": 110, "reserve": 0.0}
CASE_TOKENS = 24


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return load_model(resolve(DEFAULT_MODEL), "float32", "cpu")


def answer_all(
    model: LoadedModel, asked: Sequence[tuple[str, dict[str, Any]]], batch: int, **options: Any
) -> tuple[list[CallResult | ConstraintError], dict[str, Any]]:
    """What comes of each prompt and its parameters, at most `batch` at a time, and counters."""

    async def main(owner: SharedModel) -> list[CallResult | ConstraintError]:
        places = asyncio.Semaphore(batch)

        async def one(seed: int, prompt: str, params: dict[str, Any]) -> Any:
            async with places:
                try:
                    return await gen(stream(owner, prompt), seeds=(seed,), **params)
                except BackendError as error:
                    if isinstance(error.__cause__, ConstraintError):
                        return error.__cause__
                    raise

        return list(await asyncio.gather(*(one(i, *call) for i, call in enumerate(asked))))

    with SharedModel(model, DEFAULT_MODEL, **{"kv_tokens": 12_000, **options}) as owner:
        found = run(lambda: main(owner), limit_s=3600)
        return found, dict(owner.stats())


def assert_valid(schema: Any, result: CallResult) -> None:
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    value = json.loads(result.text)
    jsonschema.Draft202012Validator(schema, format_checker=checker).validate(value)


def read_lines(name: str) -> list[dict[str, Any]]:
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"the cases are not here: {name}")
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def test_json_is_valid(model: LoadedModel) -> None:
    asked = [("As JSON: ", {"json_schema": s, "max_tokens": 32}) for s in SCHEMAS]
    found, _ = answer_all(model, asked, 16)
    for schema, result in zip(SCHEMAS, found, strict=True):
        assert isinstance(result, CallResult)
        assert result.complete, (schema, result.text)
        assert_valid(schema, result)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_300_values_under_schemas_that_people_wrote(model: LoadedModel) -> None:
    """Greedy first, then seeded, until 300 texts have come to their end."""
    schemas = [case["schema"] for case in read_lines("data/jsonschema/maskbench_sample.jsonl")]
    valid = refused = cut = 0
    for temperature in (0.0, 1.0, 0.7):
        params = {"temperature": temperature, "max_tokens": 400}
        asked = [("An example as JSON: ", {"json_schema": s, **params}) for s in schemas]
        found, _ = answer_all(model, asked, 16)
        for schema, result in zip(schemas, found, strict=True):
            if isinstance(result, ConstraintError):
                refused += 1
            elif result.complete:
                assert_valid(schema, result)
                valid += 1
            else:
                assert result.finish_reason == "length", (schema, result)
                cut += 1
        if valid >= 300:
            break
    print(f"{valid} valid, {refused} refused, {cut} cut off")
    assert valid >= 300


class ModelOracle(Oracle):
    """`Oracle` for the default model, in float32 by transformers."""

    def __init__(self) -> None:
        path = Path(resolve(DEFAULT_MODEL))
        self._tokenizer = load_tokenizer(path)
        self._model = default_model_reference(path)
        self._bench = Bench(self._tokenizer)


def test_greedy_is_the_best_token_that_is_legal(model: LoadedModel) -> None:
    oracle = ModelOracle()
    asked = [(prompt, {"regex": pattern, "max_tokens": 8}) for prompt, pattern in GREEDY_CASES]
    found, _ = answer_all(model, asked, 16)
    for (prompt, pattern), result in zip(GREEDY_CASES, found, strict=True):
        assert isinstance(result, CallResult)
        assert list(result.token_ids) == oracle.greedy(prompt, pattern, 8), pattern


def test_free_text_that_is_legal_stays(model: LoadedModel) -> None:
    tokenizer = load_tokenizer(resolve(DEFAULT_MODEL))
    free, _ = answer_all(model, [(prompt, {"max_tokens": 5}) for prompt, _ in FREE_CASES], 16)
    asked = [(prompt, {"max_tokens": 5, "regex": pattern}) for prompt, pattern in FREE_CASES]
    bound, _ = answer_all(model, asked, 16)
    for (_, pattern), one, other in zip(FREE_CASES, free, bound, strict=True):
        assert isinstance(one, CallResult)
        assert isinstance(other, CallResult)
        ids = list(one.token_ids)
        assert re.fullmatch(pattern, one.text), "the case shows nothing"
        assert tokenizer.encode(one.text, start=False) == ids, "the case shows nothing"
        assert (other.text, list(other.token_ids)) == (one.text, ids)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_jumps_change_nothing_in_any_regex_case(model: LoadedModel) -> None:
    """Greedy and seeded; alone and in batches, with so little memory that rows are retracted."""
    patterns = [case["regex"] for case in read_lines("cases/regex_cases.jsonl")]
    asked = [
        ("Text: ", {"regex": pattern, "max_tokens": CASE_TOKENS, "temperature": temperature})
        for temperature in (0.0, 1.0)
        for pattern in patterns
    ]
    expected, _ = answer_all(model, asked, 1, jump=True)
    assert sum(isinstance(result, CallResult) for result in expected) > 1.8 * len(patterns)
    for batch, options in ((1, {"jump": False}), (16, {"jump": False}), (16, TINY)):
        found, stats = answer_all(model, asked, batch, **options)
        for (_, params), one, other in zip(asked, expected, found, strict=True):
            assert _summary(other) == _summary(one), params["regex"]
        assert options is not TINY or stats["retractions"] > 0


def _summary(result: CallResult | ConstraintError) -> tuple[object, ...]:
    if isinstance(result, ConstraintError):
        return (result.kind,)
    usage = result.usage
    counts = (usage.completion_tokens, usage.forced_tokens)
    return (result.text, tuple(result.token_ids), result.finish_reason, result.complete, counts)
