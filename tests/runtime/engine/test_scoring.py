"""Tries of choices in the step loop: pressure, cuts and cancels change no score, leak nothing."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engine import (
    VOCAB,
    Ask,
    HistoryModel,
    check_memory,
    make_core,
    run_all,
    run_with_arrivals,
)

from sgc_ir.errors import BackendError
from sgc_ir.params import SamplingParams
from sgc_runtime.engine.core import EngineCore
from sgc_runtime.model.forward import ForwardBatch, KVTensors

LONG = SamplingParams(temperature=0.0, max_tokens=16, ignore_eos=True)


def random_choices(rng: random.Random) -> list[list[int]]:
    """Some share long starts, some are the starts of others."""
    stem = [rng.randrange(2, VOCAB) for _ in range(6)]
    found = set()
    for _ in range(rng.randrange(1, 7)):
        cut = rng.randrange(0, 7)
        text = stem[:cut] + [rng.randrange(2, 6) for _ in range(rng.randrange(0, 4))]
        found.add(tuple(text or [2]))
    return [list(t) for t in sorted(found, key=lambda t: rng.random())]


def random_select(rng: random.Random, root: list[int]) -> Ask:
    choices = random_choices(rng)
    alone = rng.sample(choices, rng.randrange(len(choices) + 1)) if rng.random() < 0.4 else []
    prompt = [] if rng.random() < 0.1 else root[: rng.randrange(1, 24)]
    if not prompt and all(len(c) == 1 for c in choices + alone):
        prompt = root[:1]
    return Ask(prompt, choices=choices, alone=alone, best=rng.randrange(len(choices)))


def random_gen(rng: random.Random, root: list[int]) -> Ask:
    params = SamplingParams(temperature=rng.choice([0.0, 1.0]), max_tokens=rng.randrange(1, 16))
    return Ask(root[: rng.randrange(1, 24)], params, seed=rng.randrange(2**63))


def cached_texts(core: EngineCore) -> list[list[int]]:
    """The text up to the end of every node of the tree."""
    tree = core.cache.tree
    return [
        np.concatenate([n.key for n in reversed(list(tree.path(node)))]).tolist()
        for node in tree.nodes()
    ]


@given(
    seed=st.integers(0, 10_000),
    num_slots=st.sampled_from([64, 70, 100, 500]),
    config=st.fixed_dictionaries(
        {
            "prefill_tokens": st.sampled_from([1, 3, 7, 512]),
            "max_running": st.sampled_from([1, 3, 64]),
            "reserve": st.sampled_from([0.0, 0.5]),
            "hints": st.booleans(),
            "share_min_tokens": st.sampled_from([1, 16]),
            "max_prefill_streak": st.sampled_from([1, 4]),
            "cache": st.sampled_from([True, True, True, False]),
        }
    ),
)
@settings(max_examples=60, deadline=None)
def test_any_load_gives_the_plain_scores(seed: int, num_slots: int, config: dict[str, Any]) -> None:
    rng = random.Random(seed)
    root = [rng.randrange(2, VOCAB) for _ in range(24)]
    core = make_core(num_slots, **config)
    asks = [rng.choice([random_select, random_select, random_gen])(rng, root) for _ in range(14)]
    cancelled = run_with_arrivals(core, rng, asks)
    for ask in asks:
        if ask not in cancelled:
            ask.check()
    made = [[*a.prompt, *(a.output if not a.choices else a.choices[a.best])] for a in asks]
    for text in cached_texts(core):
        assert any(m[: len(text)] == text for m in made), "an unchosen choice is in the tree"


def test_all_choices_take_one_step_and_each_token_once() -> None:
    model = HistoryModel()
    core = make_core(400, model)
    ask = Ask(range(2, 12), choices=[[20, 21, 22], [20, 21, 23], [24, 25]], best=2)
    run_all(core, [ask])
    ask.check()
    assert model.steps == [10 + 3]  # 20, 21 and 24; nothing follows the others
    assert cached_texts(core) == [list(range(2, 12)), [*range(2, 12), 24]]


class CountingModel(HistoryModel):
    """Notes how many rows of logits each step gives."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[int] = []

    def forward(self, batch: ForwardBatch, kv: KVTensors) -> torch.Tensor:
        self.rows.append(len(batch.logit_rows))
        return super().forward(batch, kv)


def test_a_step_gives_no_more_logits_than_allowed() -> None:
    model = CountingModel()
    core = make_core(model=model, score_tokens=5)
    rng = random.Random(4)
    texts = [[2 + i, *(rng.randrange(2, VOCAB) for _ in range(12))] for i in range(6)]
    asks = [Ask(text[:6], choices=[text[6:], text[5:8]]) for text in texts]
    run_all(core, asks)
    for ask in asks:
        ask.check()
    assert max(model.rows) == 5
    assert sum(model.rows) == sum(ask.request.num_tokens - 5 for ask in asks)


def test_the_chosen_one_serves_what_follows() -> None:
    core = make_core(400)
    ask = Ask(range(2, 12), choices=[[30, 31], [20, 21, 22], [20, 21]], alone=[[20, 9]], best=1)
    run_all(core, [ask])
    after = Ask([*range(2, 12), 20, 21, 22, 40])
    run_all(core, [after])
    after.check()
    assert after.outcome is not None
    assert after.outcome.cached_tokens == 12
    # 22 and 40 are all that even a perfect cache would have to compute.
    assert core.trie.optimal_hit_rate() == pytest.approx(1 - (10 + 2) / (10 + 14))


def test_a_scoring_is_retracted_and_begins_again() -> None:
    core = make_core(50, reserve=0.0, prefill_tokens=2, max_prefill_streak=1, hints=False)
    gens = [Ask([2 + i, 3], LONG) for i in range(3)]
    for ask in gens:
        core.add(ask.request)
    for _ in range(4):
        core.step()
    rng = random.Random(3)
    choices = [[40, 41, *(rng.randrange(2, 9) for _ in range(4))] for _ in range(5)]
    ask = Ask(range(10, 20), choices=choices, best=1)
    core.add(ask.request)
    while core.step():
        check_memory(core)
    for each in [*gens, ask]:
        each.check()
    assert core.metrics.retractions > 0
    assert core.cache.referenced == 0


def test_cancel_frees_at_once_wherever_it_is() -> None:
    choices = [[30 + i, 2, 3, 4] for i in range(5)]
    for steps in range(1, 8):  # the eighth is the last one
        core = make_core(100, prefill_tokens=3)
        ask = Ask(range(2, 10), choices=choices)
        core.add(ask.request)
        for _ in range(steps):
            core.step()
        core.cancel(ask.request)
        check_memory(core)
        assert core.cache.available == 100
        assert ask.outcome is None
        assert all(t == list(range(2, 2 + len(t))) for t in cached_texts(core))


def test_one_that_can_never_fit_is_told_so() -> None:
    core = make_core(20)
    ask = Ask(range(2, 10), choices=[[i, 2, 3, 4, 5] for i in range(30, 40)])
    run_all(core, [ask])
    assert ask.outcome is not None
    assert isinstance(ask.outcome.error, BackendError)
    assert "8 prompt tokens and 40 of the texts to be scored need 48 KV" in str(ask.outcome.error)
    assert "give fewer or shorter texts or give the engine more" in str(ask.outcome.error)


class _Silent(HistoryModel):
    """Its logits are not numbers."""

    def forward(self, batch: ForwardBatch, kv: KVTensors) -> torch.Tensor:
        return super().forward(batch, kv) * float("nan")


def test_logits_that_are_no_numbers_fail_the_scoring() -> None:
    core = make_core(100, _Silent())
    ask = Ask([2, 3], choices=[[4, 5], [6]])
    run_all(core, [ask])
    assert ask.outcome is not None
    assert "not numbers" in str(ask.outcome.error)


def test_times_of_a_request() -> None:
    core = make_core(100, prefill_tokens=4)
    gen, choice = Ask(range(2, 12), LONG), Ask(range(2, 12), choices=[[4, 5], [6]])
    run_all(core, [gen, choice])
    for ask in (gen, choice):
        times = ask.request.times
        assert times.asked <= times.admitted < times.prefilled <= times.done
        timing = times.timing()
        total = timing.waiting + timing.prefill + timing.decode
        assert total == pytest.approx(times.done - times.asked)
        assert min(timing.waiting, timing.prefill, timing.decode) >= 0
    assert gen.request.times.timing().decode > choice.request.times.timing().decode
