"""Gens with jumps and without, greedy and seeded, alone and in batches, with so little memory that
rows are retracted, with steps that overlap and without, under three tokenizers: the default
model's, one of bytes alone, and one of the SentencePiece kind with byte fallback.

SGC_TOKENIZERS names more tokenizers (GGUF files or directories, with `:` between them). The long
test reads `cases/regex_cases.jsonl` and `data/jsonschema/maskbench_sample.jsonl` of the folder that
SGC_SHARED names (default: `shared` beside the repository).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.jumps import byte_tokenizer
from support.on_off import (
    Answer,
    Asked,
    answer_all,
    differences,
    num_limited,
    read_cases,
    tiny_model,
)
from support.tokenizer import KINDS, save_directory

from sgc_ir.errors import ConstraintError
from sgc_ir.params import CallResult
from sgc_runtime.model.loader import LoadedModel
from sgc_runtime.models import DEFAULT_MODEL, resolve
from sgc_runtime.tokenizer.tokenizer import load_tokenizer

GREEDY: dict[str, Any] = {"temperature": 0.0, "logprobs": True, "top_logprobs": 2}
SEEDED: dict[str, Any] = {"temperature": 1.0, "logprobs": True, "top_logprobs": 1}
TINY: dict[str, Any] = {"kv_tokens": 70, "reserve": 0.0, "hints": False}
ENGINES: tuple[tuple[int, dict[str, Any]], ...] = (
    (1, {"jump": False}),
    (16, {"jump": True}),
    (16, {"jump": False}),
    (16, {"jump": True, **TINY}),
    (16, {"jump": False, **TINY}),
    (16, {"jump": True, "overlap": True}),
    (16, {"jump": False, "overlap": True}),
    (16, {"jump": True, "overlap": True, **TINY}),
)
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 5}, "age": {"enum": [7, 36]}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
# Each of these forces text, whatever the tokenizer and whatever is sampled.
TEMPLATES: dict[str, dict[str, Any]] = {
    "object": {"regex": r'\{"name": "[a-z]{1,9}", "age": [0-9]{1,3}\}'},
    "sentence": {"regex": "The answer is (yes|no)"},
    "constant": {"regex": "The End."},
    "characters": {"regex": "日本語です|日本酒です"},
    "tagged": {"regex": "<answer>[^<]{1,6}</answer>"},
    "schema": {"json_schema": PERSON},
    "pretty": {"json_schema": PERSON, "json_style": "pretty"},
    "grammar": {"grammar": 'start: "sum of " item " and " item\nitem: "(" start ")" | "x"'},
}
FREE: dict[str, dict[str, Any]] = {
    "one byte differs": {"regex": "😀😁|😀😂"},
    "words": {"regex": r"[a-z ]{1,20}\."},
    "anything": {"regex": "(?s).{2,9}"},
    "may be empty": {"regex": "(ab)*"},
    "repeats": {"regex": r"(the|quick)( (fox|dog)){2,4}!"},
    "array": {"json_schema": {"type": "array", "items": {"type": "integer"}, "maxItems": 3}},
    "number": {"dtype": "float"},
    "text": {"dtype": "str"},
}
PROMPTS = ("The quick brown", "answer the question:", "héllo", "In 2024")
# Handed regexes of which every text has a run of at least five characters that nothing else can
# take the place of.
HANDED_TEMPLATES = ("rx157", "rx166", "rx167", "rx172")


def asked(cases: dict[str, dict[str, Any]], max_tokens: int) -> list[Asked]:
    """Each case greedy and seeded."""
    return [
        Asked(name, PROMPTS[i % 4], {"max_tokens": max_tokens, **settings, **params}, i)
        for settings in (GREEDY, SEEDED)
        for i, (name, params) in enumerate(cases.items())
    ]


class Bench:
    """A tokenizer and a random model for it."""

    def __init__(self, tokenizer: Path, folder: Path) -> None:
        self.tokenizer = load_tokenizer(tokenizer)
        self.model: LoadedModel = tiny_model(self.tokenizer, folder)

    def check(self, calls: Sequence[Asked]) -> list[Answer]:
        """The answers with jumps, one gen at a time; no other setting changes any."""
        expected, stats = answer_all(self.model, self.tokenizer, calls, 1, jump=True)
        assert stats["forced_tokens"] == sum(answer.forced for answer in expected)
        for batch, options in ENGINES:
            found, stats = answer_all(self.model, self.tokenizer, calls, batch, **options)
            wrong = differences(calls, expected, found)
            assert num_limited(found) <= len(calls) // 100
            assert not wrong, f"batch {batch}, {options}: {len(wrong)} differ:\n" + "\n".join(wrong)
            assert (stats["retractions"] > 0) == ("reserve" in options), stats
            assert stats["forced_tokens"] == sum(answer.forced for answer in found)
        return expected


@pytest.fixture
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    """By the name of a kind of tokenizer, or a path of one."""
    kind, place = request.param, tmp_path / "tokenizer"
    if kind == "bytes":
        place.mkdir()
        byte_tokenizer(place)
    elif kind == "gemma":
        save_directory(next(known for known in KINDS if known.name == kind), place)
    else:
        place = resolve(DEFAULT_MODEL) if kind == "default" else Path(kind)
    return Bench(place, tmp_path / "model")


TOKENIZERS = [
    pytest.param("default", marks=pytest.mark.model),
    "bytes",
    "gemma",
    *(path for path in os.environ.get("SGC_TOKENIZERS", "").split(":") if path),
]


@pytest.mark.parametrize("bench", TOKENIZERS, indirect=True)
def test_own_cases(bench: Bench) -> None:
    calls = asked({**TEMPLATES, **FREE}, 20)
    for call, answer in zip(calls, bench.check(calls), strict=True):
        assert isinstance(answer.result, CallResult), call.name
        if call.name in TEMPLATES:
            assert answer.forced > 0, (call, answer.result)
        if "regex" in call.params and answer.result.finish_reason != "length":
            assert re.fullmatch(call.params["regex"], answer.result.text), call


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("bench", TOKENIZERS, indirect=True)
def test_handed_cases(bench: Bench) -> None:
    """All regexes and 200 schemas that people wrote."""
    regexes = {
        case["id"]: {"regex": case["regex"]} for case in read_cases("cases/regex_cases.jsonl")
    }
    sample = read_cases("data/jsonschema/maskbench_sample.jsonl")
    schemas = {case["id"]: {"json_schema": case["schema"]} for case in sample}
    calls = asked({**regexes, **schemas}, 24)
    answers = bench.check(calls)
    refused = {
        call.name
        for call, a in zip(calls, answers, strict=True)
        if isinstance(a.result, ConstraintError)
    }
    assert len(refused & set(regexes)) <= 7, refused
    assert len(set(schemas) - refused) >= 200, refused
    for call, answer in zip(calls, answers, strict=True):
        if call.name in HANDED_TEMPLATES:
            assert answer.forced > 0, (call, answer.result)
    forcing = {call.name for call, answer in zip(calls, answers, strict=True) if answer.forced}
    print(f"{len(calls)} gens, {len(forcing)} cases with forced ids, refused: {sorted(refused)}")
