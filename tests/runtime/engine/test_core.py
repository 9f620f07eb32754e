"""The step loop against a plain loop: memory pressure, order and batching change no result."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

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

from sgc_ir.errors import BackendError, InputError
from sgc_ir.params import SamplingParams
from sgc_runtime.engine.request import Prefix, State
from sgc_runtime.model.forward import ForwardBatch, KVTensors
from sgc_runtime.tokenizer import stop_regex

PARAMS = [
    {"temperature": 0.0},
    {"temperature": 1.0},
    {"temperature": 0.8, "top_p": 0.9, "frequency_penalty": 0.5},
    {"temperature": 0.0, "repetition_penalty": 1.4},
    {"temperature": 1.0, "min_tokens": 3, "stop": ("Q",)},
    {"temperature": 0.0, "ignore_eos": True},
]


def random_ask(rng: random.Random, roots: list[list[int]]) -> Ask:
    prompt = list(rng.choice(roots)[: rng.randrange(1, 30)])
    prompt += [rng.randrange(2, VOCAB) for _ in range(rng.randrange(0, 6))]
    if rng.random() < 0.25 and len(prompt) > 2:
        return Ask(prompt, score_from=rng.randrange(1, len(prompt)))
    params = SamplingParams(max_tokens=rng.randrange(1, 16), **rng.choice(PARAMS))
    return Ask(prompt, params, seed=rng.randrange(2**63))


@given(
    seed=st.integers(0, 10_000),
    num_slots=st.sampled_from([50, 60, 90, 400]),
    config=st.fixed_dictionaries(
        {
            "prefill_tokens": st.sampled_from([1, 3, 7, 512]),
            "max_running": st.sampled_from([1, 3, 64]),
            "reserve": st.sampled_from([0.0, 0.5, 1.0]),
            "hints": st.booleans(),
            "share_min_tokens": st.sampled_from([1, 4, 16]),
            "max_prefill_streak": st.sampled_from([0, 1, 4]),
            "order": st.sampled_from(["dfs", "lpm", "fcfs"]),
            "turn_tokens": st.sampled_from([1, 60, 16_384]),
            "cache": st.sampled_from([True, True, True, False]),
            "overlap": st.booleans(),
        }
    ),
)
@settings(max_examples=60, deadline=None)
def test_any_load_gives_the_plain_result(seed: int, num_slots: int, config: dict[str, Any]) -> None:
    rng = random.Random(seed)
    roots = [[rng.randrange(2, VOCAB) for _ in range(30)] for _ in range(2)]
    core = make_core(num_slots, **config)
    asks = [random_ask(rng, roots) for _ in range(14)]
    cancelled = run_with_arrivals(core, rng, asks)
    for ask in asks:
        if ask in cancelled:
            assert ask.outcome is None
        else:
            ask.check()


def test_a_small_pool_retracts_and_evicts_all_the_time() -> None:
    core = make_core(64, reserve=0.0, hints=False)
    rng = random.Random(1)
    params = SamplingParams(temperature=0.0, max_tokens=20, ignore_eos=True)
    asks = [Ask([rng.randrange(2, VOCAB) for _ in range(9)], params) for _ in range(24)]
    run_all(core, asks)
    for ask in asks:
        ask.check()
    assert core.metrics.retractions > 10
    assert core.metrics.recomputed_tokens > 0
    assert core.metrics.peak_kv_tokens == 64


def test_full_reserve_never_retracts() -> None:
    core = make_core(64, reserve=1.0)
    params = SamplingParams(temperature=0.0, max_tokens=20, ignore_eos=True)
    asks = [Ask([2 + i, 3, 4, 5], params) for i in range(12)]
    run_all(core, asks)
    assert core.metrics.retractions == 0


def test_the_oldest_is_never_retracted() -> None:
    core = make_core(40, reserve=0.0)
    params = SamplingParams(temperature=0.0, max_tokens=30, ignore_eos=True)
    asks = [Ask([2 + i, 3], params) for i in range(6)]
    for ask in asks:
        core.add(ask.request)
    core.step()
    steps = 0
    while asks[0].outcome is None:
        core.step()
        steps += 1
        assert asks[0].request.state in (State.RUNNING, State.DONE)
    assert steps == 29


def test_rows_sent_together_share_what_one_computes() -> None:
    model = HistoryModel()
    core = make_core(2000, model)
    shared = list(range(2, 42))
    asks = [
        Ask([*shared, 2 + i, 3], SamplingParams(temperature=0, max_tokens=1)) for i in range(20)
    ]
    run_all(core, asks)
    assert [a.outcome.cached_tokens for a in asks if a.outcome] == [0] + [40] * 19
    assert model.steps == [42 + 19 * 2]


def test_a_follower_goes_on_when_its_leader_is_cancelled() -> None:
    core = make_core(400, prefill_tokens=8)
    prompt = list(range(2, 42))
    leader, follower = Ask(prompt), Ask([*prompt, 5])
    core.add(leader.request)
    core.add(follower.request)
    core.step()
    assert follower.request.state is State.WAITING
    core.cancel(leader.request)
    while core.step():
        check_memory(core)
    follower.check()
    assert follower.outcome is not None
    assert follower.outcome.cached_tokens == 8


def test_chunks_keep_to_the_budget_and_decode_rides_along() -> None:
    model = HistoryModel()
    core = make_core(1000, model, prefill_tokens=10, max_prefill_streak=3)
    short = Ask([5, 6], SamplingParams(temperature=0, max_tokens=40, ignore_eos=True))
    core.add(short.request)
    core.step()
    long = Ask([7 + i % 40 for i in range(100)])
    core.add(long.request)
    for _ in range(10):
        core.step()
    assert max(model.steps) <= 11
    assert short.request.num_tokens > 4  # not starved by the long prompt
    assert core.metrics.prefill_steps == 11


def test_a_running_gen_gets_a_token_in_every_step_whatever_else_comes() -> None:
    core = make_core(3000, prefill_tokens=16)
    running = Ask([5, 6], SamplingParams(temperature=0, max_tokens=40, ignore_eos=True))
    core.add(running.request)
    core.step()
    for i in range(39):
        core.add(Ask([7 + i % 40] * 30).request)
        before = running.request.num_tokens
        core.step()
        assert running.request.num_tokens == before + 1
    running.check()


def test_tokens_are_counted_while_their_call_runs() -> None:
    core = make_core(400)
    ask = Ask([2, 3], SamplingParams(temperature=0, max_tokens=5, ignore_eos=True))
    core.add(ask.request)
    seen = []
    while core.step():
        seen.append(core.metrics.completion_tokens)
    assert seen == [1, 2, 3, 4, 5]


def test_a_request_that_can_never_fit_fails_alone() -> None:
    core = make_core(30)
    huge, fine = Ask(range(2, 40)), Ask([2, 3])
    run_all(core, [huge, fine])
    fine.check()
    assert huge.outcome is not None
    with pytest.raises(BackendError, match=r"38 prompt tokens .* need 45 KV slots.*has 30"):
        raise huge.outcome.error or AssertionError


def test_a_call_with_a_request_that_can_never_fit_starts_none_of_its_others() -> None:
    core = make_core(30)
    fine, huge = Ask([2, 3]), Ask(range(2, 40))
    core.add(fine.request, huge.request)
    assert not core.step()
    for ask in (fine, huge):
        assert ask.outcome is not None
        with pytest.raises(BackendError, match="need 45 KV slots"):
            raise ask.outcome.error or AssertionError
    assert core.trie.optimal_hit_rate() is None  # no prompt was taken
    check_memory(core)


def test_just_fitting_fits() -> None:
    core = make_core(17)
    ask = Ask(range(2, 12), SamplingParams(temperature=0, max_tokens=8, ignore_eos=True))
    run_all(core, [ask])
    ask.check()
    assert core.metrics.peak_kv_tokens == 17


def test_a_failing_step_fails_its_requests_and_no_others() -> None:
    model = HistoryModel()
    core = make_core(400, model, max_running=2)
    asks = [Ask([2 + i]) for i in range(4)]
    model.fail_at = 3
    run_all(core, asks)
    failed = [a for a in asks if a.outcome and a.outcome.error]
    assert failed == asks[:2]
    assert "out of paper" in str(failed[0].outcome and failed[0].outcome.error)
    for ask in asks[2:]:
        ask.check()


def test_what_failed_is_told_in_one_line() -> None:
    class Torn(HistoryModel):
        def forward(self, batch: ForwardBatch, kv: KVTensors) -> torch.Tensor:
            raise RuntimeError("out of\n  paper")

    ask = Ask([2, 3])
    run_all(make_core(400, Torn()), [ask])
    assert ask.outcome is not None
    assert str(ask.outcome.error) == "the engine's step failed: RuntimeError: out of paper"


def test_a_stop_regex_without_end_fails_only_its_gen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_regex, "_SEARCH_LIMIT_S", 0.01)

    class Letter(HistoryModel):
        def forward(self, batch: ForwardBatch, kv: KVTensors) -> torch.Tensor:
            logits = super().forward(batch, kv)
            logits[:, 34] += 100.0  # nothing but "a"
            return logits

    params = SamplingParams(temperature=0, max_tokens=60)
    endless = Ask([2, 3], replace(params, stop_regex=("(a|aa)+$(?<!a)",)))
    fine = Ask([4, 5], params)
    run_all(make_core(400, Letter()), [endless, fine])
    assert endless.outcome is not None
    assert isinstance(endless.outcome.error, InputError)
    assert fine.outcome is not None
    assert fine.outcome.error is None
    assert len(fine.output) == 60


def test_cancel_frees_at_once() -> None:
    core = make_core(100)
    before = core.cache.available
    asks = [Ask([2 + i] * 10, SamplingParams(temperature=0, max_tokens=10)) for i in range(4)]
    for ask in asks:
        core.add(ask.request)
    core.step()
    core.step()
    assert core.cache.available < before
    for ask in asks:
        core.cancel(ask.request)
    assert core.cache.available == before
    assert core.cache.referenced == 0
    assert not core.step()


def test_a_soft_hold_saves_matching_and_survives_eviction() -> None:
    core = make_core(60)
    first = Ask(range(2, 22), SamplingParams(temperature=0, max_tokens=5, ignore_eos=True))
    run_all(core, [first])
    assert first.outcome is not None
    node = first.outcome.node
    assert node is not None
    assert node.end == 24
    ids = [*first.prompt, *first.output]
    hold = Prefix(node, 24)
    again = Ask([*ids, 9], prefix=hold)
    run_all(core, [again])
    again.check()
    assert again.outcome is not None
    assert again.outcome.cached_tokens == 24
    run_all(core, [Ask([44] * 50)])  # takes nearly the whole pool
    assert not node.alive or node.end < 24
    late = Ask([*ids, 9, 8], prefix=hold)
    run_all(core, [late])
    late.check()


def test_rolled_back_tokens_leave_the_tree() -> None:
    core = make_core(60)
    first = Ask(range(2, 12), SamplingParams(temperature=0, max_tokens=5, ignore_eos=True))
    run_all(core, [first])
    assert first.outcome is not None
    assert first.outcome.node is not None
    cached = core.cache.tree.cached
    other = Ask([*first.prompt, first.output[0], 40], prefix=Prefix(first.outcome.node, 11))
    core.add(other.request)
    assert core.cache.tree.cached == cached - 3
    run_all(core, [])
    other.check()
