"""What one request computes in a step is shared by others in the same step."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engine import (
    VOCAB,
    Ask,
    HistoryModel,
    check_memory,
    make_core,
    plain_generation,
    run_all,
)

from sgc_ir.params import SamplingParams
from sgc_runtime.engine.request import State

ONE = SamplingParams(temperature=0, max_tokens=1)


def greedy(max_tokens: int, **params: Any) -> SamplingParams:
    return SamplingParams(temperature=0.0, max_tokens=max_tokens, ignore_eos=True, **params)


def cached(asks: list[Ask]) -> list[int]:
    return [ask.outcome.cached_tokens for ask in asks if ask.outcome is not None]


def test_branches_of_branches_begin_in_one_step() -> None:
    """Each token is computed once, and all results are those of a plain loop."""
    model = HistoryModel()
    core = make_core(2000, model)
    root = list(range(2, 32))
    asks = [Ask(root, ONE)]
    for i in range(3):
        branch = [*root, 40 + i, *range(3, 13)]
        asks += [Ask(branch, ONE), Ask([*branch, 7, 8], ONE), Ask([*branch, 7, 9], ONE)]
    asks.append(Ask(root[:20], choices=[[4, 5], [6]]))
    run_all(core, asks)
    assert len(model.steps) == 1
    for ask in asks:
        ask.check()
    prompts = sum(len(ask.prompt) for ask in asks)
    assert core.trie.optimal_hit_rate() == pytest.approx(sum(cached(asks)) / prompts)


@pytest.mark.parametrize("overlap", [False, True])
def test_a_prompt_that_is_cut_is_shared_in_its_last_step(overlap: bool) -> None:
    model = HistoryModel()
    core = make_core(2000, model, prefill_tokens=16, overlap=overlap)
    prompt = [2 + i % 47 for i in range(40)]
    asks = [Ask(prompt, greedy(3)), *(Ask([*prompt, 5 + i], greedy(3)) for i in range(4))]
    for ask in asks:
        core.add(ask.request)
    core.step()
    assert [ask.request.state for ask in asks[1:]] == [State.WAITING] * 4
    run_all(core, [])
    assert model.steps[:3] == [16, 16, 12]
    assert cached(asks) == [0, 40, 40, 40, 40]
    for ask in asks:
        ask.check()


def test_who_waits_for_a_prefix_joins_the_step_that_computes_its_end() -> None:
    model = HistoryModel()
    core = make_core(2000, model, prefill_tokens=20)
    prompt = [2 + i % 47 for i in range(30)]
    asks = [Ask(prompt, ONE), *(Ask([*prompt[:28], 5 + i, 6], ONE) for i in range(3))]
    run_all(core, asks)
    assert model.steps == [20, 10 + 3 * 2]
    assert cached(asks) == [0, 28, 28, 28]
    for ask in asks:
        ask.check()


def test_even_one_token_is_shared_where_nobody_waits_for_it() -> None:
    model = HistoryModel()
    core = make_core(2000, model)
    asks = [Ask([2, 3 + i, *range(4, 14)], ONE) for i in range(5)]
    asks += [Ask([*ask.prompt, 30], ONE) for ask in asks]
    run_all(core, asks)
    assert len(model.steps) == 1
    assert cached(asks) == [0, *[1] * 4, *[12] * 5]
    for ask in asks:
        ask.check()


def test_without_a_cache_nothing_is_shared() -> None:
    core = make_core(2000, cache=False)
    asks = [Ask([*range(2, 32), 40 + i], ONE) for i in range(4)]
    run_all(core, asks)
    assert cached(asks) == [0, 0, 0, 0]
    for ask in asks:
        ask.check()


def test_nothing_of_a_step_that_fails_is_found_later() -> None:
    model = HistoryModel()
    core = make_core(400, model)
    root = list(range(2, 32))
    model.fail_at = 1
    failing = [Ask([*root, *more]) for more in ([], [40], [40, 41, 42], [40, 41, 43], [7])]
    run_all(core, failing)
    assert all(ask.outcome is not None and ask.outcome.error is not None for ask in failing)
    assert core.cache.tree.cached == 0
    again = [Ask(ask.prompt) for ask in failing]
    run_all(core, again)
    for ask in again:
        ask.check()


def test_what_was_there_before_a_failing_step_stays() -> None:
    model = HistoryModel()
    core = make_core(400, model)
    root = list(range(2, 32))
    run_all(core, [Ask(root, ONE)])
    before = core.cache.tree.cached
    model.fail_at = len(model.steps) + 1
    run_all(core, [Ask([*root, 40, 41, *more]) for more in ([], [42], [43])])
    assert core.cache.tree.cached == before
    after = Ask([*root, 40, 41, 44])
    run_all(core, [after])
    after.check()
    assert cached([after]) == [30]


def test_who_has_begun_without_a_token_to_compute_survives_a_failing_step() -> None:
    """A scoring finds all of its prompt in the tree; the step has no logits left for it."""
    model = HistoryModel()
    core = make_core(400, model, score_tokens=1)
    root = list(range(2, 32))
    first, second = Ask(root[:29], choices=[[31], [7]]), Ask(root[:29], choices=[[31], [8]])
    asks = [Ask(root), first, second]
    model.fail_at = 1
    run_all(core, asks)
    failed = [ask for ask in asks if ask.outcome is not None and ask.outcome.error is not None]
    assert second not in failed
    assert len(failed) == 2
    second.check()
    last = Ask([*root, 40])
    run_all(core, [last])
    last.check()


def test_a_gen_that_ends_where_a_failing_step_computed_keeps_nothing_of_it() -> None:
    """Its output is the very prompt of others; the last id is known when their step has failed."""
    params = greedy(30, stop=tuple("acegikmoqsuwy"))
    begin, output = next(
        (i, out)
        for i in range(4, VOCAB)
        if 5 < len(out := plain_generation([i, 3], params, 0)) < 20
    )
    model = HistoryModel()
    core = make_core(400, model, overlap=True)
    ends = Ask([begin, 3], params)
    core.add(ends.request)
    for _ in range(len(output)):
        core.step()
    model.fail_at = len(model.steps) + 1
    text = [begin, 3, *output]
    followers = [Ask([*text, 9, 8 + i]) for i in range(3)]
    for ask in followers:
        core.add(ask.request)
    run_all(core, [])
    ends.check()
    assert all(ask.outcome is not None and ask.outcome.error is not None for ask in followers)
    again = [Ask(ask.prompt) for ask in followers]
    run_all(core, again)
    for ask in again:
        ask.check()


@given(
    seed=st.integers(0, 100_000),
    num_slots=st.sampled_from([60, 90, 400]),
    config=st.fixed_dictionaries(
        {
            "prefill_tokens": st.sampled_from([7, 30, 512]),
            "score_tokens": st.sampled_from([1, 2, 256]),
            "max_running": st.sampled_from([3, 64]),
            "reserve": st.sampled_from([0.0, 1.0]),
            "hints": st.booleans(),
            "share_min_tokens": st.sampled_from([1, 4, 16]),
            "max_prefill_streak": st.sampled_from([0, 1, 4]),
            "order": st.sampled_from(["dfs", "lpm", "fcfs"]),
            "overlap": st.booleans(),
        }
    ),
)
@settings(max_examples=60, deadline=None)
def test_steps_that_fail_harm_nobody_else(
    seed: int, num_slots: int, config: dict[str, Any]
) -> None:
    rng = random.Random(seed)
    model = HistoryModel()
    core = make_core(num_slots, model, **config)
    roots = [[rng.randrange(2, VOCAB) for _ in range(30)] for _ in range(2)]
    asks: list[Ask] = []
    for _ in range(30):
        for _ in range(rng.choice([0, 0, 1, 5])):
            asks.append(_random_ask(rng, roots))
            core.add(asks[-1].request)
        if rng.random() < 0.3:
            model.fail_at = len(model.steps) + 1
        core.step()
        check_memory(core)
    model.fail_at = None
    run_all(core, [])
    for ask in asks:
        assert ask.outcome is not None
        if ask.outcome.error is None:
            ask.check()
        else:
            assert "out of paper" in str(ask.outcome.error)
    late = [_random_ask(rng, roots) for _ in range(6)]
    run_all(core, late)
    for ask in late:
        ask.check()


def _random_ask(rng: random.Random, roots: list[list[int]]) -> Ask:
    prompt = list(rng.choice(roots)[: rng.randrange(1, 30)])
    if rng.random() < 0.3:  # the way that a generation goes
        prompt += plain_generation(prompt, greedy(4), 0)
    if rng.random() < 0.3:
        return Ask(prompt, choices=[[5, 6], [rng.randrange(2, VOCAB)]])
    return Ask(prompt, greedy(rng.randrange(1, 8)))


def test_what_a_failing_step_shared_counts_as_found_nowhere() -> None:
    model = HistoryModel()
    core = make_core(400, model, score_tokens=1)
    root = list(range(2, 32))
    scorings = [Ask(root[:29], choices=[[31], [i]]) for i in (7, 8)]
    failing, survivor = [Ask(root), scorings[0]], scorings[1]
    model.fail_at = 1
    run_all(core, [*failing, survivor])
    for ask in failing:
        core.cancel(ask.request)
    survivor.check()
    assert cached([survivor]) == [0]
    assert core.trie.optimal_hit_rate() == 0.0


@pytest.mark.parametrize("together", [False, True])
def test_others_find_what_a_cancelled_call_computed(together: bool) -> None:
    """So the best hit rate is not below theirs."""
    core = make_core()
    cancelled, other = Ask(list(range(2, 32)), greedy(20)), Ask(list(range(2, 32)), ONE)
    core.add(cancelled.request)
    if together:
        core.add(other.request)
    core.step()
    core.cancel(cancelled.request)
    run_all(core, [] if together else [other])
    other.check()
    assert cached([other]) == [29]
    assert core.trie.optimal_hit_rate() == pytest.approx(29 / 30)
