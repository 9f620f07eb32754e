"""The default model in float32 under constraints: settings change nothing, free text stays free."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import jsonschema
import pytest
from support.local import gen, run, stream
from support.shared_model import SharedModel

from sgc_runtime.model.loader import LoadedModel, load_model
from sgc_runtime.models import DEFAULT_MODEL, resolve

pytestmark = pytest.mark.model

CHARACTER = r"""\{
    "name": "[\w\d\s]{1,16}",
    "house": "(Gryffindor|Slytherin|Ravenclaw|Hufflepuff)",
    "wand": \{
        "wood": "[\w\d\s]{1,16}",
        "length": [0-9]{1,2}\.[0-9]{0,2}
    \},
    "alive": "(Alive|Deceased)"
\}"""
SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 16},
        "population": {"type": "integer", "minimum": 0, "maximum": 40_000_000},
        "capital": {"type": "boolean"},
        "rivers": {"type": "array", "items": {"type": "string", "maxLength": 9}, "maxItems": 2},
    },
    "required": ["city", "population", "capital", "rivers"],
    "additionalProperties": False,
}
ASKED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Hermione is a character. As JSON:\n", {"regex": CHARACTER, "temperature": 1.0}),
    ("Paris as JSON: ", {"json_schema": SCHEMA}),
    ("2, 3, 5, ", {"dtype": "int"}),
    ("Grade: ", {"regex": r"[ABCD][+\-]?", "temperature": 1.0}),
)


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return load_model(resolve(DEFAULT_MODEL), "float32", "cpu")


def answers(model: LoadedModel, together: bool, **options: Any) -> list[Any]:
    async def main(owner: SharedModel) -> list[Any]:
        calls = [
            gen(stream(owner, prompt), max_tokens=90, seeds=(i,), **params)
            for i, (prompt, params) in enumerate(ASKED)
        ]
        if together:
            return list(await asyncio.gather(*calls))
        return [await call for call in calls]

    with SharedModel(model, DEFAULT_MODEL, kv_tokens=4_000, **options) as owner:
        return list(run(lambda: main(owner), limit_s=900))


@pytest.fixture(scope="module")
def alone(model: LoadedModel) -> list[Any]:
    return answers(model, together=False)


def test_texts_keep_to_their_constraints(alone: list[Any]) -> None:
    for (_, params), result in zip(ASKED, alone, strict=True):
        if not result.complete:
            assert result.finish_reason == "length"
        elif "regex" in params:
            assert re.fullmatch(params["regex"], result.text)
        elif "json_schema" in params:
            jsonschema.validate(json.loads(result.text), SCHEMA)
        else:
            int(result.text)
    assert alone[0].usage.forced_tokens > 20
    assert alone[1].usage.forced_tokens > 8


@pytest.mark.parametrize("options", [{"jump": False}, {"prefill_tokens": 7}], ids=str)
def test_jumps_batches_and_chunks_change_nothing(
    model: LoadedModel, alone: list[Any], options: dict[str, Any]
) -> None:
    found = answers(model, together=True, **options)
    assert [list(r.token_ids) for r in found] == [list(r.token_ids) for r in alone]
    for one, other in zip(found, alone, strict=True):
        assert one.usage.forced_tokens == other.usage.forced_tokens
        assert (one.text, one.finish_reason) == (other.text, other.finish_reason)
        assert one.meta["allowed_mass"] == pytest.approx(other.meta["allowed_mass"], abs=0.01)


def test_what_is_legal_anyway_stays_as_it_is(model: LoadedModel) -> None:
    prompts = ["The capital of France is", "def add(a, b):\n"]

    async def main(owner: SharedModel) -> list[Any]:
        settings: tuple[dict[str, Any], ...] = ({}, {"regex": r"(?s).*"})
        return [
            [await gen(stream(owner, prompt), max_tokens=10, **more) for more in settings]
            for prompt in prompts
        ]

    with SharedModel(model, DEFAULT_MODEL, kv_tokens=2_000) as owner:
        for free, bound in run(lambda: main(owner)):
            assert list(bound.token_ids) == list(free.token_ids)
            assert bound.meta["allowed_mass"] == pytest.approx(0.0, abs=0.05)
            assert bound.usage.forced_tokens == 0
