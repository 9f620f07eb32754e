"""Constrained gens of the local engine: legal, equal to a plain loop, whatever the setting."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from support.constrained import PROMPTS, REGEXES, TEMPLATES, Asked, Legal, Oracle, answer_all, asked
from support.local import backend, gen, run, stream, tiny_folder

from sgc_ir.errors import BackendError
from sgc_ir.params import SamplingParams
from sgc_runtime.backends.local import LocalBackend
from sgc_runtime.executor.backend import Call, Text
from sgc_runtime.tokenizer.tokenizer import load_tokenizer

SETTINGS: tuple[dict[str, Any], ...] = (
    {"temperature": 0.0},
    {"temperature": 1.3, "top_p": 0.9, "logprobs": True, "top_logprobs": 2},
    {"temperature": 0.8, "top_k": 5, "repetition_penalty": 1.2, "frequency_penalty": 0.3},
    {"temperature": 1.0, "stop": ("o", "e 1")},
    {"temperature": 1.0, "stop": ("a", '"'), "min_tokens": 3},
    {"temperature": 1.0, "min_tokens": 4, "ignore_eos": True},
)
TINY: dict[str, Any] = {"kv_tokens": 60, "reserve": 0.0, "hints": False}
ENGINES: tuple[tuple[int, dict[str, Any]], ...] = (
    (1, {"jump": False}),
    (16, {"jump": True}),
    (16, {"jump": True, **TINY}),
    (16, {"jump": False, "cache": False, "prefill_tokens": 5, **TINY}),
)


@pytest.fixture(scope="module")
def alone(folder: Path) -> list[Asked]:
    """Every gen with jumps, one at a time."""
    calls = asked(SETTINGS)
    answer_all(folder, calls, 1, jump=True)
    return calls


def test_every_text_is_legal(alone: list[Asked], folder: Path) -> None:
    tokenizer = load_tokenizer(folder)
    for call in alone:
        result = call.result
        assert result is not None
        assert "".join(call.pieces) == result.text
        legal = Legal(call.pattern, tokenizer)
        data = b""
        for token in result.token_ids:
            assert token not in tokenizer.control_ids
            data += tokenizer.token_bytes(token)
            assert legal.begins(data)
        if result.finish_reason in ("constraint", "eos"):
            assert re.fullmatch(call.pattern, result.text)
        complete = bool(re.fullmatch(call.pattern, result.text)) and not result.pending
        assert result.complete == complete


def test_templates_force_tokens(alone: list[Asked]) -> None:
    for call in alone:
        if REGEXES.index(call.pattern) in TEMPLATES and "stop" not in call.params:
            assert call.result is not None
            assert call.result.usage.forced_tokens > 0, call.pattern


@pytest.mark.parametrize(("batch", "options"), ENGINES, ids=str)
def test_no_setting_of_the_engine_changes_anything(
    alone: list[Asked], folder: Path, batch: int, options: dict[str, Any]
) -> None:
    calls = asked(SETTINGS)
    stats = answer_all(folder, calls, batch, **options)
    for call, expected in zip(calls, alone, strict=True):
        assert call.summary == expected.summary
        assert call.numbers == pytest.approx(expected.numbers, abs=1e-3)
        assert "".join(call.pieces) == "".join(expected.pieces)
    assert (stats["retractions"] > 0) == ("reserve" in options)
    assert stats["forced_tokens"] == sum(c.result.usage.forced_tokens for c in calls if c.result)
    assert stats["completion_tokens"] == sum(
        c.result.usage.completion_tokens for c in calls if c.result
    )


@pytest.mark.long
@pytest.mark.parametrize("kind", ["gpt2", "qwen2", "llama-bpe", "llama2", "mistral", "gemma"])
def test_other_tokenizers(kind: str, tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path, kind)
    expected = asked(SETTINGS)
    answer_all(folder, expected, 1, jump=True)
    test_every_text_is_legal(expected, folder)
    for batch, options in ENGINES:
        test_no_setting_of_the_engine_changes_anything(expected, folder, batch, options)


def test_jumps_save_passes(folder: Path) -> None:
    calls = asked(({"temperature": 0.0},))
    steps = [answer_all(folder, calls, 1, jump=jump)["decode_steps"] for jump in (True, False)]
    assert steps[0] < 0.6 * steps[1]


def test_greedy_is_the_best_legal_text_step_by_step(alone: list[Asked], folder: Path) -> None:
    oracle = Oracle(folder)
    for call in alone[: len(REGEXES)]:
        assert call.result is not None
        prompt = PROMPTS[call.seed % len(PROMPTS)]
        expected = oracle.greedy(prompt, call.pattern, 24)
        assert list(call.result.token_ids) == expected, call.pattern


def test_log_probabilities_of_forced_ids_are_those_of_the_model(
    alone: list[Asked], folder: Path, reference: Any
) -> None:
    tokenizer = load_tokenizer(folder)
    for call in alone:
        if not call.params.get("logprobs"):
            continue
        assert call.result is not None
        entries, ids = call.result.meta["logprobs"], list(call.result.token_ids)
        assert [e["id"] for e in entries] == ids
        marked = sum("forced" in e for e in entries)
        assert marked <= call.result.usage.forced_tokens
        prompt = tokenizer.encode(PROMPTS[call.seed % len(PROMPTS)])
        with torch.inference_mode():
            logits = reference(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
        expected = logits.log_softmax(-1).gather(-1, torch.tensor(ids)[:, None])[:, 0]
        assert [e["logprob"] for e in entries] == pytest.approx(expected.tolist(), abs=0.02)


def test_allowed_mass_is_what_the_model_gives_to_legal_ids(
    alone: list[Asked], folder: Path, reference: Any
) -> None:
    tokenizer = load_tokenizer(folder)
    call = alone[3]  # at most the dot at its end is forced
    assert call.result is not None
    ids, expected = list(call.result.token_ids), 0.0
    prompt, legal = tokenizer.encode(PROMPTS[call.seed % 4]), Legal(call.pattern, tokenizer)
    for n in range(len(ids) - call.result.usage.forced_tokens):
        text = b"".join(map(tokenizer.token_bytes, ids[:n]))
        with torch.inference_mode():
            logp = reference(torch.tensor([prompt + ids[:n]])).logits[0, -1].log_softmax(-1)
        ends = list(tokenizer.eos_ids) if legal.complete(text) else []
        expected += float(logp[legal.tokens(text) + ends].logsumexp(-1))
    assert call.result.usage.forced_tokens <= 1
    assert call.result.meta["allowed_mass"] == pytest.approx(expected, abs=0.01)


def test_rows_with_and_without_constraints_share_a_batch(folder: Path) -> None:
    patterns = (None, REGEXES[0], None, REGEXES[3], REGEXES[5], None)
    kinds = [{"temperature": 0.0}, {"temperature": 1.0}]

    def call(owner: LocalBackend, i: int) -> Any:
        prompt, kind = PROMPTS[i % 4], kinds[i % 2]
        return gen(stream(owner, prompt), seeds=(i,), regex=patterns[i], max_tokens=12, **kind)

    async def together(owner: LocalBackend) -> list[Any]:
        return list(await asyncio.gather(*(call(owner, i) for i in range(len(patterns)))))

    async def one_by_one(owner: LocalBackend) -> list[Any]:
        return [await call(owner, i) for i in range(len(patterns))]

    with backend(folder) as owner:
        batch = run(lambda: together(owner))
    with backend(folder) as owner:
        single = run(lambda: one_by_one(owner))
    assert [list(r.token_ids) for r in batch] == [list(r.token_ids) for r in single]
    assert ["allowed_mass" in r.meta for r in batch] == [p is not None for p in patterns]


def test_samples_of_one_call_have_places_of_their_own(folder: Path) -> None:
    async def main(owner: LocalBackend, n: int, seeds: tuple[int, ...]) -> list[Any]:
        params = SamplingParams(n=n, regex=REGEXES[0], max_tokens=40)
        return await stream(owner, "The fox").generate(Call("g0", "", 0, params, seeds))

    with backend(folder) as owner:
        together = run(lambda: main(owner, 3, (5, 6, 7)))
        single = [run(lambda s=s: main(owner, 1, (s,)))[0] for s in (5, 6, 7)]
    assert [r.text for r in together] == [r.text for r in single]
    assert len({r.text for r in together}) > 1
    assert all(re.fullmatch(REGEXES[0], r.text) for r in together)
    assert [r.usage.forced_tokens for r in together] == [r.usage.forced_tokens for r in single]


def test_forks_go_on_behind_a_constrained_gen(folder: Path, local: LocalBackend) -> None:
    async def main() -> None:
        on = stream(local, "What is the capital")
        first = await gen(on, regex=REGEXES[0], max_tokens=40)
        branches = [on.fork(), on.fork()]
        for branch in branches:
            branch.append([Text(" of France")])
        found = await asyncio.gather(*(gen(b, regex=REGEXES[1]) for b in branches))
        fresh = stream(local, "What is the capital")
        again = await gen(fresh, regex=REGEXES[0], max_tokens=40)
        assert again.token_ids == first.token_ids
        fresh.append([Text(" of France")])
        expected = await gen(fresh, regex=REGEXES[1])
        assert [list(r.token_ids) for r in found] == [list(expected.token_ids)] * 2

    run(main)


@pytest.mark.parametrize("prompt", ['He said "htt', "The qui", "answer the quest"])
def test_healing_goes_before_the_constraint(folder: Path, prompt: str) -> None:
    async def main(owner: LocalBackend) -> Any:
        pattern = r"[a-z]{1,8}( [a-z]{1,5}){0,3}\."
        return await gen(stream(owner, prompt), regex=pattern, heal=True, max_tokens=20)

    results = []
    for jump in (True, False):
        with backend(folder, jump=jump) as owner:
            results.append(run(lambda: main(owner)))
    assert results[0].text == results[1].text
    assert list(results[0].token_ids) == list(results[1].token_ids)
    assert results[0].complete == bool(
        re.fullmatch(r"[a-z]{1,8}( [a-z]{1,5}){0,3}\.", results[0].text)
    )


@pytest.mark.parametrize(
    ("dtype", "kind"), [("int", int), ("float", float), ("bool", bool), ("str", str)]
)
def test_dtypes(local: LocalBackend, dtype: str, kind: type) -> None:
    async def main() -> list[Any]:
        rows = [
            gen(stream(local, PROMPTS[i % 4]), dtype=dtype, temperature=1.0, seeds=(i,), **more)
            for i in range(8)
            for more in ({"max_tokens": 40}, {"max_tokens": 40, "min_tokens": 3})
        ]
        return list(await asyncio.gather(*rows))

    for result in run(main):
        if result.finish_reason == "length":
            assert not result.complete
            continue
        assert result.complete
        value = json.loads(result.text) if dtype == "str" else result.text
        assert isinstance(kind(value), kind)
        assert result.text == result.text.strip() or result.finish_reason == "constraint"


def test_a_number_ends_before_whatever_begins_with_a_blank(local: LocalBackend) -> None:
    async def main() -> Any:
        bias = {str(token): 30.0 for token in local.tokenizer.encode(" fox")}
        return await gen(stream(local, "In 20"), dtype="int", logit_bias=bias, max_tokens=9)

    result = run(main)
    assert (result.finish_reason, result.matched) == ("stop", " ")
    assert re.fullmatch("-?[0-9]+", result.text)


def test_a_failed_automaton_fails_its_node_alone(local: LocalBackend) -> None:
    async def main() -> list[Any]:
        bad = gen(stream(local, "The quick"), regex="(a")
        good = gen(stream(local, "The quick"), regex=REGEXES[1])
        free = gen(stream(local, "The quick"))
        return list(await asyncio.gather(bad, good, free, return_exceptions=True))

    bad, good, free = run(main)
    assert isinstance(bad, BackendError)
    assert str(bad).startswith("regex: ")
    assert "\n" not in str(bad)
    assert good.finish_reason == "constraint"
    assert free.text


def test_bias_that_leaves_nothing_is_an_error(local: LocalBackend) -> None:
    bias = {str(token): float("-inf") for token in range(local.tokenizer.vocab_size)}
    with pytest.raises(BackendError, match="logit_bias"):
        run(lambda: gen(stream(local, "a"), regex="[ab]c", logit_bias=bias))


def test_min_tokens_gives_way_where_nothing_may_follow(local: LocalBackend) -> None:
    result = run(lambda: gen(stream(local, "a"), regex="yes|no", min_tokens=7, max_tokens=9))
    assert (result.finish_reason, result.complete) == ("constraint", True)
    assert result.text in ("yes", "no")


def test_empty_text_may_be_all_there_is(local: LocalBackend) -> None:
    result = run(lambda: gen(stream(local, "a"), regex=""))
    assert (result.text, result.finish_reason, list(result.token_ids)) == ("", "constraint", [])


def test_a_cut_text_says_that_it_is_not_complete(local: LocalBackend) -> None:
    result = run(lambda: gen(stream(local, "a"), regex=REGEXES[0], max_tokens=5))
    assert (result.finish_reason, result.complete) == ("length", False)
    assert result.usage.completion_tokens == 5


def test_a_fight_is_told_once_a_node(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main(owner: LocalBackend) -> None:
        for _ in range(3):
            await gen(stream(owner, "The quick brown"), regex="[QZ]{4}")

    with backend(folder) as owner, caplog.at_level(logging.WARNING, "sgc"):
        run(lambda: main(owner))
    found = [r.getMessage() for r in caplog.records if "allows on average only" in r.getMessage()]
    assert len(found) == 1
    assert found[0].startswith("node g0: its regex")


def test_cancelled_gens_leave_nothing_behind(folder: Path) -> None:
    async def main(owner: LocalBackend) -> None:
        calls = [
            asyncio.ensure_future(
                gen(stream(owner, PROMPTS[i % 4]), regex="[a-z ]*", max_tokens=400)
            )
            for i in range(6)
        ]
        await asyncio.sleep(0.3)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        result = await gen(stream(owner, "The"), regex=REGEXES[1])
        assert result.finish_reason == "constraint"
        core = (await owner.engine()).engine.core
        assert core.cache.referenced == 0

    with backend(folder) as owner:
        run(lambda: main(owner))
