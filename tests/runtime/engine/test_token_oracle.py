"""The default model in float32 under every setting of the engine: tokens equal transformers'."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from support.local import gen, run, select, stream
from support.reference import default_model_reference
from support.shared_model import SharedModel

from sgc_ir.params import CHOICE_METHODS, SamplingParams
from sgc_runtime.engine.seams import Seams
from sgc_runtime.engine.stream import TokenStream
from sgc_runtime.executor.backend import Text
from sgc_runtime.model.loader import LoadedModel, load_model
from sgc_runtime.models import DEFAULT_MODEL, resolve
from sgc_runtime.sampling.row import SamplingRow
from sgc_runtime.sampling.sampler import sample
from sgc_runtime.tokenizer.tokenizer import Tokenizer, load_tokenizer

pytestmark = pytest.mark.model

NUM_TOKENS = 8
BETWEEN = "ly, and so"
SUBJECTS = ["the sea", "a clock", "France", "bread", "the moon", "chess", "rain", "a fox", "iron"]
SHAPES = ["Tell me about {0} and {1}.", "What has {0} to do with {1}?\nAnswer:", "{0}, {1},"]
SEEDED = SamplingParams(temperature=1.0, top_p=0.95, max_tokens=NUM_TOKENS, ignore_eos=True)
TINY = {"kv_tokens": 72, "reserve": 0.0, "hints": False}
ROOMY = {"kv_tokens": 4_000}
# Each pool with each chunk and each seam; each order.
ALL = [
    {**TINY, "prefill_tokens": 7, "order": "lpm", "seam": "splice"},
    {**TINY, "prefill_tokens": 512, "order": "dfs", "seam": "canonical"},
    {**ROOMY, "prefill_tokens": 7, "order": "fcfs", "seam": "canonical"},
    {**ROOMY, "prefill_tokens": 512, "order": "lpm", "seam": "splice"},
]
SOME = [
    {**TINY, "prefill_tokens": 7, "order": "dfs", "seam": "canonical"},
    {**TINY, "prefill_tokens": 512, "order": "lpm", "seam": "splice"},
    {**ROOMY, "prefill_tokens": 7, "order": "fcfs", "seam": "splice"},
]

Answers = list[tuple[list[int], list[int]]]


def prompts(num: int) -> list[str]:
    rng = random.Random(11)
    return [rng.choice(SHAPES).format(*rng.sample(SUBJECTS, 2)) for _ in range(num)]


class Oracle:
    """transformers' answers: greedy ids, text behind them, then seeded ids drawn from its logits.

    Each prompt's seed is its number.
    """

    def __init__(self, model: transformers.PreTrainedModel, tokenizer: Tokenizer) -> None:
        self._model, self._tokenizer = model, tokenizer
        self._known: dict[tuple[int, str], Answers] = {}

    def answers(self, num: int, seam: str) -> Answers:
        if (num, seam) not in self._known:
            self._known[num, seam] = self._compute(prompts(num), seam)
        return self._known[num, seam]

    def _compute(self, texts: list[str], seam: str) -> Answers:
        seams = Seams(self._tokenizer, seam)
        streams = [TokenStream(pieces=(Text(t),)) for t in texts]
        first = self._generate([s.resolve(seams).tolist() for s in streams], None)
        for s, ids in zip(streams, first):
            s.go_on(np.concatenate([s.ids, np.array(ids, np.int32)]), None)
            s.append([Text(BETWEEN)])
        asked = [s.resolve(seams).tolist() for s in streams]
        rows = [SamplingRow(SEEDED, i, ids, ()) for i, ids in enumerate(asked)]
        return list(zip(first, self._generate(asked, rows)))

    def _generate(self, asked: list[list[int]], rows: list[SamplingRow] | None) -> list[list[int]]:
        width = max(map(len, asked))
        padded = torch.tensor([[0] * (width - len(p)) + p for p in asked])
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in asked])
        with torch.inference_mode():
            out = self._model.generate(
                padded,
                attention_mask=mask,
                max_new_tokens=NUM_TOKENS,
                do_sample=False,
                eos_token_id=None,
                pad_token_id=0,
                logits_processor=[_Draw(rows)] if rows is not None else [],
            )
        ids: list[list[int]] = out[:, width:].tolist()
        return ids

    def logprobs(self, ids: list[int]) -> list[float]:
        """Of each id but the first."""
        with torch.inference_mode():
            logp = self._model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        return [float(logp[i - 1, ids[i]]) for i in range(1, len(ids))]


class _Draw(transformers.LogitsProcessor):
    """Leaves only the id that is drawn."""

    def __init__(self, rows: list[SamplingRow]) -> None:
        self._rows = rows

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        chosen = sample(scores.float().clone(), self._rows).ids
        out = torch.full_like(scores, -torch.inf)
        for i, (row, token) in enumerate(zip(self._rows, chosen)):
            row.advance(token)
            out[i, token] = 0.0
        return out


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return load_tokenizer(resolve(DEFAULT_MODEL))


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return load_model(resolve(DEFAULT_MODEL), "float32", "cpu")


@pytest.fixture(scope="module")
def oracle(tokenizer: Tokenizer) -> Oracle:
    return Oracle(default_model_reference(resolve(DEFAULT_MODEL)), tokenizer)


async def answer(owner: SharedModel, text: str, seed: int) -> tuple[list[int], list[int]]:
    on = stream(owner, text)
    first = await gen(on, max_tokens=NUM_TOKENS, ignore_eos=True)
    on.append([Text(BETWEEN)])
    second = await gen(
        on, seeds=(seed,), temperature=1.0, top_p=0.95, max_tokens=NUM_TOKENS, ignore_eos=True
    )
    return list(first.token_ids), list(second.token_ids)


def check(model: LoadedModel, oracle: Oracle, num: int, options: dict[str, Any]) -> None:
    """All prompts at once, in an order of this setting's own."""
    texts = prompts(num)
    order = random.Random(str(options)).sample(range(num), num)

    async def main(owner: SharedModel) -> dict[int, Any]:
        rows = await asyncio.gather(*(answer(owner, texts[i], i) for i in order))
        core = (await owner.engine()).engine.core
        core.cache.check()
        assert core.cache.referenced == 0
        return dict(zip(order, rows))

    with SharedModel(model, DEFAULT_MODEL, **options) as owner:
        found = run(lambda: main(owner), limit_s=1800)
        stats = owner.stats()
    assert [found[i] for i in range(num)] == oracle.answers(num, options["seam"])
    if options["kv_tokens"] == TINY["kv_tokens"]:
        assert stats["retractions"] > 0
        assert stats["recomputed_tokens"] > 0


@pytest.mark.parametrize("options", SOME, ids=str)
def test_some_prompts(model: LoadedModel, oracle: Oracle, options: dict[str, Any]) -> None:
    check(model, oracle, 5, options)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("options", ALL, ids=str)
def test_fifty_prompts(model: LoadedModel, oracle: Oracle, options: dict[str, Any]) -> None:
    check(model, oracle, 50, options)


def test_selects(model: LoadedModel, oracle: Oracle, tokenizer: Tokenizer) -> None:
    prompt = "Question: what is the capital of France?\nAnswer:"
    choices = [" Paris", " Paris, France", " London", " the city of Paris"]
    start = len(tokenizer.encode(prompt))
    encoded = [tokenizer.encode(prompt + c) for c in choices]
    means = [sum(x) / len(x) for x in (oracle.logprobs(ids)[start - 1 :] for ids in encoded)]
    alone = [oracle.logprobs(ids[start:]) for ids in encoded]
    contrast = [m - sum(a) / (len(a) + 1) for m, a in zip(means, alone)]

    async def main(owner: SharedModel) -> list[Any]:
        gens = [gen(stream(owner, t), max_tokens=4) for t in prompts(2)]
        calls = [select(stream(owner, prompt), choices, method) for method in CHOICE_METHODS]
        moved = select(stream(owner, prompt + " "), [c[1:] for c in choices])
        return list(await asyncio.gather(*calls, moved, *gens))

    with SharedModel(model, DEFAULT_MODEL, kv_tokens=200, prefill_tokens=7) as owner:
        found = run(lambda: main(owner))
    for result, expected in zip(found, [means, means, contrast, means]):
        assert result.meta["scores"] == pytest.approx(expected, abs=1e-4)
    assert found[0].text == choices[means.index(max(means))]
    assert found[2].text == choices[contrast.index(max(contrast))]
    assert found[3].text == found[0].text[1:]
