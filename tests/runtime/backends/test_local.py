"""Tokens of the local engine equal transformers', whatever the load; and what it saves."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
import transformers
from support.local import (
    WORDS,
    answers,
    backend,
    gen,
    greedy_ids,
    prompts,
    run,
    select,
    stream,
)

from sgc_ir.params import CHOICE_METHODS
from sgc_runtime.backends.local import LocalBackend, LocalStream
from sgc_runtime.executor.backend import Text


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"prefill_tokens": 7},
        {"prefill_tokens": 3, "max_running": 5},
        {"kv_tokens": 90, "reserve": 0.0, "hints": False},
        {"cache": False},
    ],
    ids=str,
)
def test_greedy_tokens_equal_transformers(
    folder: Path, reference: transformers.PreTrainedModel, options: dict[str, Any]
) -> None:
    texts = prompts(16)
    with backend(folder, **options) as owner:
        encoded = [owner.tokenizer.encode(text) for text in texts]
        expected = [greedy_ids(reference, ids, 12) for ids in encoded]
        together = run(lambda: answers(owner, texts, max_tokens=12))
        warm = run(lambda: answers(owner, texts, max_tokens=12))
        alone = [run(lambda t=t: answers(owner, [t], max_tokens=12))[0] for t in texts[:4]]
        stats = owner.stats()
    assert together == warm == expected
    assert alone == expected[:4]
    if options.get("reserve") == 0.0:
        assert stats["retractions"] > 0
        assert stats["recomputed_tokens"] > 0


def test_forks_three_deep_equal_transformers(
    local: LocalBackend, reference: transformers.PreTrainedModel
) -> None:
    """Each branch's prompt, seams included, is what transformers is asked to go on with."""

    async def branch(parent: LocalStream, depth: int) -> None:
        ids = parent.ids
        result = await gen(parent, max_tokens=5, ignore_eos=True)
        before = parent.ids[: len(parent.ids) - len(result.token_ids)]
        assert before[: len(ids) - 8] == ids[: max(0, len(ids) - 8)]
        assert result.token_ids == greedy_ids(reference, before, 5, eos=False)
        if depth:
            children = [parent.fork() for _ in range(2)]
            for i, child in enumerate(children):
                assert isinstance(child, LocalStream)
                child.append([Text(f" {WORDS[i]} and")])
            await asyncio.gather(*(branch(c, depth - 1) for c in children))  # type: ignore[arg-type]

    run(lambda: branch(stream(local, "The answer is"), 3))


class Wanderer:
    """Random programs: text, gens, selects and forks; notes what each gen went on from."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.asked: list[tuple[list[int], list[int], int]] = []

    async def walk(self, on: LocalStream, depth: int) -> None:
        for _ in range(self.rng.randrange(1, 4)):
            await self.step(on)
        if depth:
            children = [on.fork() for _ in range(self.rng.randrange(1, 4))]
            await asyncio.gather(*(self.walk(c, depth - 1) for c in children))  # type: ignore[arg-type]
        await self.step(on)

    async def step(self, on: LocalStream) -> None:
        rng = self.rng
        if rng.random() < 0.7:
            on.append([Text(" " + " ".join(rng.choices(WORDS, k=rng.randrange(1, 5))))])
        if rng.random() < 0.3:
            await select(on, rng.sample(WORDS, 3), rng.choice(CHOICE_METHODS))
            return
        num = rng.randrange(1, 9)
        result = await gen(on, max_tokens=num, ignore_eos=True)
        self.asked.append((on.ids[:-num], list(result.token_ids), num))


@pytest.mark.parametrize("kv_tokens", [260, 4000])
def test_random_programs_equal_transformers(
    folder: Path, reference: transformers.PreTrainedModel, kv_tokens: int
) -> None:
    wanderer = Wanderer(kv_tokens)

    async def main(owner: LocalBackend) -> None:
        roots = [stream(owner, text) for text in prompts(5, seed=2)]
        await asyncio.gather(*(wanderer.walk(root, 2) for root in roots))
        core = (await owner.engine()).engine.core
        assert core.cache.referenced == 0
        core.cache.check()

    with backend(folder, kv_tokens=kv_tokens, reserve=0.0, prefill_tokens=50) as owner:
        run(lambda: main(owner))
        stats = owner.stats()
    assert stats["hit_rate"] <= stats["optimal_hit_rate"] + 1e-12  # both are rounded
    assert len(wanderer.asked) > 30  # how many depends on the order of answers
    for prompt, output, num in wanderer.asked:
        assert output == greedy_ids(reference, prompt, num, eos=False)


def test_seeded_sampling_does_not_see_the_batch(local: LocalBackend) -> None:
    texts = prompts(12, seed=3)

    async def sampled(rows: list[int]) -> list[Any]:
        calls = [
            gen(stream(local, texts[i]), temperature=1.0, top_p=0.95, seeds=(i,), max_tokens=10)
            for i in rows
        ]
        return [r.token_ids for r in await asyncio.gather(*calls)]

    together = run(lambda: sampled(list(range(12))))
    shuffled = run(lambda: sampled([7, 2, 9]))
    assert shuffled == [together[7], together[2], together[9]]
    assert len({tuple(ids) for ids in together}) > 6


def test_many_rows_decode_together(folder: Path) -> None:
    with backend(folder) as owner:
        run(lambda: answers(owner, prompts(32), max_tokens=32, ignore_eos=True))
        stats = owner.stats()
    assert stats["completion_tokens"] == 32 * 32
    assert stats["decode_steps"] <= 40
    assert stats["tokenizer_calls"] <= 32
    assert stats["peak_running"] == 32
    assert 24 < stats["mean_running"] <= 32
    assert stats["hit_rate"] > 0.5  # sent at once, and yet one computes the shared part
    assert stats["hit_rate"] <= stats["optimal_hit_rate"]


def test_a_stream_of_five_gens_computes_each_token_once(folder: Path) -> None:
    async def five(owner: LocalBackend) -> tuple[int, int]:
        on, computed, pieces = stream(owner), 0, 0
        for i in range(5):
            on.append([Text(f"Step {i}: {WORDS[i]} "), Text("is the")])
            pieces += 2
            result = await gen(on, max_tokens=6, ignore_eos=True)
            computed += result.usage.prompt_tokens - result.usage.cached_tokens
        made = 5 * 6
        # Decode computed all generated tokens but the last of each gen.
        return computed, len(on.ids) - made + 5 - 1

    with backend(folder, seam="splice") as owner:
        computed, needed = run(lambda: five(owner))
        stats = owner.stats()
    assert computed == needed
    assert stats["tokenizer_calls"] <= 10
    assert stats["hit_rate"] == pytest.approx(stats["optimal_hit_rate"])


def test_canonical_seams_compute_no_more_than_they_change(folder: Path) -> None:
    async def five(owner: LocalBackend) -> int:
        on, extra = stream(owner, "The answer"), 0
        cached_before = 0
        for _ in range(5):
            ids = on.ids
            result = await gen(on, max_tokens=6, ignore_eos=True)
            before = on.ids[: len(on.ids) - 6]
            kept = next((i for i, (a, b) in enumerate(zip(ids, before)) if a != b), len(ids))
            extra += min(kept, cached_before) - result.usage.cached_tokens
            cached_before = len(on.ids) - 1
            on.append([Text(" is the quick fox")])
        return extra

    with backend(folder) as owner:
        assert run(lambda: five(owner)) == 0
        assert owner.stats()["tokenizer_calls"] <= 6


def test_forked_text_is_encoded_once(local: LocalBackend) -> None:
    async def main() -> int:
        before = local.tokenizer.calls
        parent = stream(local, "The quick brown fox jumps over")
        children = [parent.fork() for _ in range(8)]
        await asyncio.gather(*(gen(c, max_tokens=2) for c in children))  # type: ignore[arg-type]
        return local.tokenizer.calls - before

    assert run(main) == 1


def test_forks_share_what_is_computed(local: LocalBackend) -> None:
    async def main() -> None:
        parent = stream(local, prompts(1, seed=8)[0])
        await gen(parent, max_tokens=6, ignore_eos=True)
        children = [parent.fork() for _ in range(8)]
        results = await asyncio.gather(*(gen(c, max_tokens=3) for c in children))  # type: ignore[arg-type]
        for result in results:
            assert result.usage.prompt_tokens - result.usage.cached_tokens == 1
            assert result.token_ids == results[0].token_ids

    run(main)


def test_idle_streams_never_block_a_full_pool(folder: Path) -> None:
    async def main(owner: LocalBackend) -> None:
        idle = [stream(owner, f"{i} {text}") for i, text in enumerate(prompts(200, seed=5))]
        await asyncio.gather(*(gen(s, max_tokens=2) for s in idle))
        fresh = await answers(owner, ["Brown dogs " + t for t in prompts(8, seed=6)], max_tokens=20)
        assert len(fresh) == 8
        back = await asyncio.gather(*(gen(s, max_tokens=2) for s in idle[:20]))
        assert all(r.finish_reason in ("length", "eos") for r in back)

    with backend(folder, kv_tokens=300) as owner:
        run(lambda: main(owner))


def test_cancelling_frees_the_slots(folder: Path) -> None:
    async def main(owner: LocalBackend) -> None:
        await answers(owner, prompts(1))
        cache = (await owner.engine()).engine.core.cache
        tasks = [
            asyncio.ensure_future(gen(stream(owner, t), max_tokens=400, ignore_eos=True))
            for t in prompts(4)
        ]
        while cache.referenced == 0:
            await asyncio.sleep(0.001)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        while cache.referenced:  # `run` sets a limit
            await asyncio.sleep(0.005)
        assert (await answers(owner, ["the dog"]))[0]

    with backend(folder) as owner:
        run(lambda: main(owner))
