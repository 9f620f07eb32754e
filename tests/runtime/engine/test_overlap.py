"""Steps that begin before the results of the ones before them are known change no result."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engine import (
    Ask,
    HistoryModel,
    check_memory,
    make_core,
    plain_generation,
    run_all,
)
from support.mixes import Asked, FallingAside, Mix, run_mix

from sgc_ir.errors import BackendError
from sgc_ir.params import SamplingParams
from sgc_runtime.cache.kv_pool import KVPool
from sgc_runtime.engine.config import EngineConfig
from sgc_runtime.engine.core import EngineCore
from sgc_runtime.engine.host_runner import HostFlight, HostRunner
from sgc_runtime.engine.lookahead import Lookahead
from sgc_runtime.engine.request import Request
from sgc_runtime.engine.runner import Launched, Results
from sgc_runtime.engine.slices import Slices
from sgc_runtime.engine.step_input import Positions
from sgc_runtime.model.forward import ForwardBatch, KVTensors


@pytest.fixture(scope="module")
def mix(tmp_path_factory: pytest.TempPathFactory) -> Mix:
    return Mix(tmp_path_factory.mktemp("mix"))


CONFIG = st.fixed_dictionaries(
    {
        "overlap": st.sampled_from([True, True, False]),
        "jump": st.booleans(),
        "prefill_tokens": st.sampled_from([1, 3, 7, 512]),
        "mixed_tokens": st.sampled_from([None, 1, 5]),
        "score_tokens": st.sampled_from([1, 256]),
        "max_running": st.sampled_from([1, 3, 64]),
        "reserve": st.sampled_from([0.0, 0.5, 1.0]),
        "hints": st.booleans(),
        "share_min_tokens": st.sampled_from([1, 4]),
        "max_prefill_streak": st.sampled_from([0, 1, 4]),
        "cache": st.sampled_from([True, True, False]),
    }
)


@given(
    seed=st.integers(0, 100_000),
    num_slots=st.sampled_from([60, 70, 100, 600]),
    aside=st.sampled_from([0.0, 0.0, 0.1, 0.5]),
    config=CONFIG,
)
@settings(max_examples=60, deadline=None)
def test_any_mix_gives_what_each_gives_alone(
    mix: Mix, seed: int, num_slots: int, aside: float, config: dict[str, Any]
) -> None:
    rng = random.Random(seed)
    roots = [[rng.randrange(4, mix.vocab) for _ in range(25)] for _ in range(2)]
    wishes = [mix.wish(rng, roots, 18) for _ in range(10)]
    wishes += rng.choices(wishes, k=2)
    expected = [mix.alone(wish) for wish in wishes]
    core = mix.core(num_slots, **config)
    asked = [Asked(mix, wish, config["jump"]) for wish in wishes]
    with pytest.MonkeyPatch.context() as patch:
        falls, early = FallingAside(rng, aside), rng.choice([0.5, 1.0, 1.0])
        patch.setattr(Slices, "_is_done", lambda *args: falls(*args))
        patch.setattr(Lookahead, "pays", property(lambda _: rng.random() < early))
        cancelled = run_mix(core, rng, asked)
    for one, wanted in zip(asked, expected, strict=True):
        if one not in cancelled:
            one.answer().check(wanted)


def greedy(max_tokens: int, **params: Any) -> SamplingParams:
    return SamplingParams(temperature=0.0, max_tokens=max_tokens, **params)


def asks(num: int) -> list[Ask]:
    """Some that end by EOS, a stop or their length, and some scorings, with shared prefixes."""
    made = []
    for i in range(num):
        prompt = [*range(2, 12 + 3 * (i % 3)), 2 + i]
        if i % 4 == 3:
            made.append(Ask(prompt, choices=[[5, 6 + i], [7]]))
        else:
            params = greedy(3 + i % 7, stop=("Q", "a")[: i % 3], ignore_eos=i % 2 == 0)
            made.append(Ask(prompt, params))
    return made


def test_counters_are_the_same() -> None:
    found = []
    for overlap in (False, True):
        model = HistoryModel()
        core, asked = make_core(2000, model, overlap=overlap, prefill_tokens=20), asks(24)
        run_all(core, asked)
        for ask in asked:
            ask.check()
        counters = core.metrics.to_dict()
        for name in ("prefill_steps", "decode_steps", "peak_running", "peak_kv_tokens"):
            del counters[name]
        cached = [ask.outcome.cached_tokens for ask in asked if ask.outcome]
        found.append((counters, cached, core.cache.tree.cached, core.trie.optimal_hit_rate()))
    assert found[0] == found[1]


def test_nothing_is_computed_behind_a_last_id_that_is_sure() -> None:
    """What ends by its length costs no more tokens than without overlap."""
    computed = []
    for overlap in (False, True):
        model = HistoryModel()
        core = make_core(400, model, overlap=overlap)
        run_all(core, [Ask([2 + i, 3], greedy(1 + i, ignore_eos=True)) for i in range(9)])
        computed.append(sum(model.steps))
    assert computed[0] == computed[1]


class FailingFlight(HostFlight):
    def result(self) -> Results:
        raise RuntimeError("lost\n in flight")


class FailingRunner(HostRunner):
    """Loses the results of one step, or cannot begin to choose its ids."""

    def __init__(self, *args: Any, fail_at: int, late: bool) -> None:
        super().__init__(*args)
        self._fail_at, self._late = fail_at, late
        self.closed = False

    def sample(
        self,
        launched: Launched,
        rows: Sequence[Request],
        recording: Sequence[Positions],
        scoring: Sequence[Positions],
    ) -> HostFlight:
        self._fail_at -= 1
        found = super().sample(launched, rows, recording, scoring)
        if self._fail_at != 0:
            return found
        if self._late:
            return FailingFlight(found.draft, found.results)
        raise RuntimeError("lost\n in flight")

    def close(self) -> None:
        self.closed = True


def failing_core(fail_at: int, late: bool, overlap: bool) -> EngineCore:
    kv = KVPool(1, 400, 1, 1, torch.float32, torch.device("cpu"))
    runner = FailingRunner(HistoryModel(), kv, fail_at=fail_at, late=late)
    config = EngineConfig(kv_tokens=400, overlap=overlap, max_running=3)
    return EngineCore(runner, config)


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("fail_at", [1, 2, 5])
def test_a_step_that_fails_fails_its_requests_and_no_others(
    fail_at: int, late: bool, overlap: bool
) -> None:
    core = failing_core(fail_at, late, overlap)
    lengths = (2, 4, 9, 5, 3, 7)
    asked = [Ask([2 + i, 3], greedy(n, ignore_eos=True)) for i, n in enumerate(lengths)]
    run_all(core, asked)
    failed = [a for a in asked if a.outcome is not None and a.outcome.error is not None]
    assert 1 <= len(failed) <= 3
    for ask in asked:
        if ask in failed:
            assert ask.outcome is not None
            error = ask.outcome.error
            assert isinstance(error, BackendError)
            assert str(error) == "the engine's step failed: RuntimeError: lost in flight"
        else:
            ask.check()


def test_a_forward_that_fails_leaves_what_the_step_before_has_ended() -> None:
    params = greedy(30, stop=tuple("acegikmoqsuwy"))
    outputs = {i: len(plain_generation([i, 3], params, 0)) for i in range(4, 40)}
    begin, length = next((i, length) for i, length in outputs.items() if 3 < length < 20)
    model = HistoryModel()
    core = make_core(400, model, overlap=True)
    ends, goes_on = Ask([begin, 3], params), Ask([2, 3], greedy(30, ignore_eos=True))
    model.fail_at = length + 1  # begins before the last id of the first one is known
    run_all(core, [ends, goes_on])
    ends.check()
    assert goes_on.outcome is not None
    assert "out of paper" in str(goes_on.outcome.error)


@pytest.mark.parametrize("overlap", [False, True])
def test_logits_that_are_no_numbers_fail_their_request_alone(overlap: bool) -> None:
    class Broken(HistoryModel):
        def forward(self, batch: ForwardBatch, kv: KVTensors) -> torch.Tensor:
            assert (batch.input_ids >= 0).all()
            logits = super().forward(batch, kv)
            for row, place in enumerate(batch.logit_rows.tolist()):
                if batch.input_ids[place] == 40:
                    logits[row] = float("nan")
            return logits

    core = make_core(400, Broken(), overlap=overlap)
    broken, fine = Ask([2, 3, 40], greedy(9)), Ask([4, 5], greedy(9, logit_bias={"40": -100.0}))
    run_all(core, [broken, fine])
    fine.check()
    assert broken.outcome is not None
    assert "the model's logits are not numbers" in str(broken.outcome.error)


def test_cancelled_while_its_id_is_on_the_way() -> None:
    core = make_core(100, overlap=True)
    available = core.cache.available
    asked = [Ask([2 + i] * 10, greedy(10, ignore_eos=True)) for i in range(3)]
    for ask in asked:
        core.add(ask.request)
    core.step()
    core.step()
    assert all(a.request.pending for a in asked)
    core.cancel(asked[0].request)
    core.cancel(asked[1].request)
    late = Ask([40] * 10, greedy(5, ignore_eos=True))  # takes over their slots
    core.add(late.request)
    while core.step():
        check_memory(core)
    for ask in (asked[2], late):
        ask.check()
    assert [a.outcome for a in asked[:2]] == [None, None]
    assert core.cache.available == available
    assert core.cache.referenced == 0


def test_closed_with_a_step_in_flight() -> None:
    core = failing_core(0, late=False, overlap=True)
    ask = Ask([2, 3], greedy(9, ignore_eos=True))
    core.add(ask.request)
    core.step()
    assert ask.request.pending
    core.close()
    assert isinstance(core.runner, FailingRunner)
    assert core.runner.closed
    assert core.open == {ask.request}


@pytest.mark.parametrize("overlap", [False, True])
def test_prompts_do_not_hold_up_those_that_decode(overlap: bool) -> None:
    """While another one decodes, a step computes few prompt tokens; alone it computes many."""
    model = HistoryModel()
    core = make_core(2000, model, overlap=overlap, prefill_tokens=64, mixed_tokens=8)
    running = Ask([2, 3], greedy(20, ignore_eos=True))
    core.add(running.request)
    core.step()
    long = Ask([4 + i % 40 for i in range(300)], greedy(1))
    core.add(long.request)
    begun = len(model.steps)
    while running.outcome is None:
        core.step()
        check_memory(core)
    assert max(model.steps[begun:-1]) == 9
    decoded = len(model.steps)
    while core.step():
        check_memory(core)
    assert model.steps[decoded] == 64
    running.check()
    long.check()
