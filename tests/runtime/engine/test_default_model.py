"""The default model in float32: greedy tokens equal transformers' for 50 prompts."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from functools import partial

import pytest
import torch
import transformers
from support.local import answers, backend, gen, run, select, stream
from support.reference import default_model_reference

from sgc_runtime.backends.local import LocalBackend, LocalStream
from sgc_runtime.executor.backend import Text
from sgc_runtime.models import DEFAULT_MODEL, resolve

pytestmark = pytest.mark.model

NUM_TOKENS = 24
SUBJECTS = ["the sea", "a clock", "France", "bread", "the moon", "chess", "rain", "a fox", "iron"]
SHAPES = [
    "Tell me something about {0}. Then compare it with {1}.",
    "Question: what has {0} to do with {1}?\nAnswer:",
    "Once upon a time {0} met {1}, and",
    "{0}, {1},",
    "1. {0}\n2. {1}\n3.",
]


def prompts(num: int) -> list[str]:
    rng = random.Random(7)
    return [rng.choice(SHAPES).format(*rng.sample(SUBJECTS, 2)) for _ in range(num)]


@pytest.fixture(scope="module")
def reference() -> transformers.PreTrainedModel:
    return default_model_reference(resolve(DEFAULT_MODEL))


@pytest.fixture(scope="module")
def local() -> Iterator[LocalBackend]:
    with backend(DEFAULT_MODEL, kv_tokens=12_000) as made:
        yield made


def greedy(
    model: transformers.PreTrainedModel, prompts: list[list[int]], num: int
) -> list[list[int]]:
    """Ids that transformers generates behind each prompt, EOS ignored; padded on the left."""
    width = max(map(len, prompts))
    padded = torch.tensor([[0] * (width - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
    with torch.inference_mode():
        out = model.generate(
            padded,
            attention_mask=mask,
            max_new_tokens=num,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
    ids: list[list[int]] = out[:, width:].tolist()
    return ids


def test_fifty_prompts(local: LocalBackend, reference: transformers.PreTrainedModel) -> None:
    texts = prompts(50)
    encoded = [local.tokenizer.encode(text) for text in texts]
    expected = greedy(reference, encoded, NUM_TOKENS)

    async def together(rows: range) -> list[list[int]]:
        calls = [gen(stream(local, texts[i]), max_tokens=NUM_TOKENS, ignore_eos=True) for i in rows]
        return [list(r.token_ids) for r in await asyncio.gather(*calls)]

    async def all_in_batches() -> list[list[int]]:
        batches = [await together(range(i, min(i + 16, 50))) for i in range(0, 50, 16)]
        return [ids for batch in batches for ids in batch]

    cold = run(all_in_batches)
    assert cold == expected
    before = local.stats()["cached_tokens"]
    warm = run(all_in_batches)
    assert warm == expected
    assert local.stats()["cached_tokens"] >= before + sum(len(ids) - 1 for ids in encoded)
    alone = [run(lambda i=i: together(range(i, i + 1)))[0] for i in range(3)]
    assert alone == expected[:3]


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_fifty_prompts_one_by_one(reference: transformers.PreTrainedModel) -> None:
    texts = prompts(50)
    for cache in (True, False):
        with backend(DEFAULT_MODEL, kv_tokens=12_000, cache=cache) as local:
            encoded = [local.tokenizer.encode(text) for text in texts]
            for text, expected in zip(texts, greedy(reference, encoded, NUM_TOKENS)):
                call = partial(answers, local, [text], max_tokens=NUM_TOKENS, ignore_eos=True)
                assert run(call) == [expected]


def test_32_rows_of_32_tokens_decode_together() -> None:
    texts = prompts(32)
    with backend(DEFAULT_MODEL, kv_tokens=4_000) as local:
        rows = run(lambda: answers(local, texts, max_tokens=32, ignore_eos=True))
        stats = local.stats()
    assert [len(ids) for ids in rows] == [32] * 32
    assert stats["completion_tokens"] == 32 * 32
    assert stats["decode_steps"] <= 40
    assert stats["tokenizer_calls"] <= 32


def test_a_stream_of_five_gens_computes_each_prompt_token_once() -> None:
    async def five(local: LocalBackend) -> tuple[int, int]:
        on, computed = stream(local), 0
        for i in range(5):
            on.append([Text(f"{i + 1}. {SUBJECTS[i]} is")])
            result = await gen(on, max_tokens=6, ignore_eos=True)
            computed += result.usage.prompt_tokens - result.usage.cached_tokens
        made = 5 * 6  # all of them but the last of each gen were computed by decoding
        return computed, len(on.ids) - made + 4

    with backend(DEFAULT_MODEL, kv_tokens=1_000, seam="splice") as local:
        computed, needed = run(lambda: five(local))
        stats = local.stats()
    assert computed == needed
    assert stats["tokenizer_calls"] <= 5


def test_forks_three_deep(local: LocalBackend, reference: transformers.PreTrainedModel) -> None:
    asked: list[tuple[list[int], list[int]]] = []

    async def branch(on: LocalStream, depth: int) -> None:
        result = await gen(on, max_tokens=8, ignore_eos=True)
        num = len(on.ids) - len(result.token_ids)
        asked.append((on.ids[:num], list(result.token_ids)))
        if depth:
            children = [on.fork() for _ in range(2)]
            for i, child in enumerate(children):
                assert isinstance(child, LocalStream)
                child.append([Text(f"\nNext, point {i}:")])
            await asyncio.gather(*(branch(c, depth - 1) for c in children))  # type: ignore[arg-type]

    run(lambda: branch(stream(local, "A plan for the day:"), 3))
    assert len(asked) == 15
    assert [ids for _, ids in asked] == greedy(reference, [p for p, _ in asked], 8)


def test_chat_turns_and_a_choice(local: LocalBackend) -> None:
    messages = [{"role": "user", "content": "What is the capital of France? Answer in one word."}]
    rendered = local.chat_template.render(messages, add_generation_prompt=True)

    async def main() -> None:
        on = local.open()
        assert isinstance(on, LocalStream)
        on.append([Text(rendered, control=True)])
        fork = on.fork()
        assert isinstance(fork, LocalStream)
        answer = await gen(on, max_tokens=20, end_of_turn=True)
        assert "Paris" in answer.text
        assert answer.finish_reason == "eos"
        chosen = await select(fork, ["London", "Paris", "Berlin"])
        assert chosen.text == "Paris"

    run(main)
