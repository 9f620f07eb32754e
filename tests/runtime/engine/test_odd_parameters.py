"""Constrained gens with random parameters of every kind: jumps, batches and little memory change
nothing, and what comes out keeps to limits, stops and constraints."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path
from typing import Any

import pytest
from support.jumps import byte_tokenizer
from support.on_off import Answer, Asked, answer_all, differences, tiny_model
from support.tokenizer import KINDS, save_directory

from sgc_ir.params import CallResult
from sgc_runtime.tokenizer.tokenizer import Tokenizer, load_tokenizer

PROMPTS = ("The quick bro", "answer the quest", "héllo ", 'He said "', "In 20", "日本", "a\n")
REGEXES = (
    r'\{"name": "[a-z]{1,9}", "age": [0-9]{1,3}\}',
    "The answer is (yes|no)",
    r"(foo|bar) [0-9]{2}, (foo|bar)",
    r"[a-z ]{1,20}\.",
    "日本語です|日本酒です",
    "😀😁|😀😂",
    "(the|quick|brown)( (fox|dog|lazy)){1,3}!",
    "(?s).{0,12}",
    "a*",
    "(a|b|ab)*c",
    "the lazy dog",
)
CLOSED = REGEXES[1:3] + REGEXES[4:7]  # with places where few texts are possible
STOPS = ("e", " ", '": ', "er is", "\n", '"}', "語で", "o", ", ", "a", "x dog")
TINY: dict[str, Any] = {"kv_tokens": 50, "reserve": 0.0, "hints": False}
ENGINES: tuple[tuple[int, dict[str, Any]], ...] = (
    (1, {"jump": False}),
    (16, {"jump": True, "prefill_tokens": 5}),
    (16, {"jump": False}),
    (16, {"jump": True, **TINY}),
    (16, {"jump": False, **TINY, "cache": False}),
)


def odd(rng: random.Random, tokenizer: Tokenizer) -> dict[str, Any]:
    """Parameters of a gen that is refused by no rule."""
    ids = range(tokenizer.vocab_size)
    found: dict[str, Any] = {
        "regex": rng.choice(REGEXES),
        "temperature": rng.choice((0.0, 0.7, 1.3)),
        "max_tokens": rng.choice((1, 3, 7, 20, 20)),
        "heal": rng.random() < 0.3,
    }
    if rng.random() < 0.4:
        found["stop"] = tuple(rng.sample(STOPS, rng.randrange(1, 3)))
    if rng.random() < 0.15:
        found["stop_regex"] = (rng.choice(("[0-9]{2}", "s [a-z]", "[ae]r?")),)
    if rng.random() < 0.15:
        found["stop_token_ids"] = tuple(rng.sample(ids, len(ids) // 30))
    if rng.random() < 0.3:
        found |= {"top_k": rng.choice((1, 4)), "top_p": 0.9, "min_p": 0.01}
    if rng.random() < 0.2:
        return {**found, "regex": rng.choice(CLOSED), "distribution": "exact"}
    if rng.random() < 0.3:
        found |= {"logprobs": True, "top_logprobs": rng.randrange(3)}
    if rng.random() < 0.3:
        found |= {"repetition_penalty": 1.3, "frequency_penalty": 0.4, "presence_penalty": -0.2}
    if rng.random() < 0.3:
        found |= {"min_tokens": rng.randrange(min(9, found["max_tokens"] + 1))}
    if rng.random() < 0.2:
        found["ignore_eos"] = True
    if rng.random() < 0.3:
        chosen = rng.sample(ids, len(ids) // 10)
        found["logit_bias"] = {str(i): rng.choice((-100.0, -3.0, 5.0)) for i in chosen}
    return found


def load(kind: str, folder: Path) -> Tokenizer:
    folder.mkdir()
    if kind == "bytes":
        return byte_tokenizer(folder)
    save_directory(next(known for known in KINDS if known.name == kind), folder)
    return load_tokenizer(folder)


def check(kind: str, folder: Path, count: int, seed: int) -> None:
    tokenizer = load(kind, folder / "tokenizer")
    model = tiny_model(tokenizer, folder / "model")
    rng = random.Random(seed)
    calls = [
        Asked(f"seed {seed}, gen {i}", rng.choice(PROMPTS), odd(rng, tokenizer), i)
        for i in range(count)
    ]
    expected, _ = answer_all(model, tokenizer, calls, 1, jump=True)
    for call, answer in zip(calls, expected, strict=True):
        assert_sound(call, answer, tokenizer)
    for batch, options in ENGINES:
        small = "reserve" in options  # too small for sets of texts, which are scored at once
        kept = [i for i, c in enumerate(calls) if not (small and "distribution" in c.params)]
        asked = [calls[i] for i in kept]
        found, stats = answer_all(model, tokenizer, asked, batch, **options)
        wrong = differences(asked, [expected[i] for i in kept], found)
        assert not wrong, f"batch {batch}, {options}: {len(wrong)} differ:\n" + "\n".join(wrong)
        assert (stats["retractions"] > 0) == small, stats


def assert_sound(call: Asked, answer: Answer, tokenizer: Tokenizer) -> None:
    result, params = answer.result, call.params
    assert isinstance(result, CallResult), (call, result)
    whole = re.fullmatch(params["regex"], result.text) is not None and not result.pending
    assert result.complete == whole, (call, result)
    assert result.finish_reason in ("constraint", "eos", "stop") or (
        result.usage.completion_tokens == params["max_tokens"]
    ), (call, result)
    if result.finish_reason in ("constraint", "eos"):
        assert whole, (call, result)
    if result.finish_reason == "stop" and isinstance(result.matched, int):
        assert result.matched in params["stop_token_ids"], (call, result)
    if not params.get("min_tokens"):
        assert not any(stop in result.text for stop in params.get("stop", ())), (call, result)
    assert result.usage.forced_tokens <= result.usage.completion_tokens, (call, result)


@pytest.mark.parametrize("kind", ["bytes", "smollm", "gemma"])
def test_nothing_changes_with_odd_parameters(kind: str, tmp_path: Path) -> None:
    check(kind, tmp_path, 60, 0)


@pytest.mark.long
@pytest.mark.parametrize("kind", [kind.name for kind in KINDS])
def test_nothing_changes_in_many(kind: str, tmp_path: Path) -> None:
    """Other parameters each time."""
    check(kind, tmp_path, 600, int.from_bytes(os.urandom(4), "big"))
