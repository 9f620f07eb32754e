"""Known beginnings of prompts are computed where nothing else is to be done, and count as what they
are."""

from __future__ import annotations

import random

import numpy as np
from support.engine import Ask, HistoryModel, check_memory, make_core
from support.scheduling import Simulation, check_laws, plain_output

from sgc_ir.params import SamplingParams
from sgc_runtime.engine.core import EngineCore
from sgc_runtime.engine.prefill_ahead import AheadJob

LONG = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True)


def ids(number: int, length: int) -> list[int]:
    rng = random.Random(number)
    return [rng.randrange(2, 50) for _ in range(length)]


def job(text: list[int]) -> AheadJob:
    return AheadJob(np.array(text, np.int32))


def ahead(core: EngineCore) -> int:
    return core.scheduler.admission.ahead.num_tokens


def steps(core: EngineCore) -> int:
    """Until nothing is left, with the laws of memory after each."""
    count = 0
    while core.step():
        check_memory(core)
        count += 1
    return count


def test_a_prompt_is_there_when_its_call_comes() -> None:
    """While one call decodes, the prompt of the next is computed beside it."""
    found = {}
    for known in (False, True):
        core = make_core(400)
        first, then = Ask(ids(1, 20), LONG), Ask([*ids(2, 100), 7, 8], LONG)
        core.add(first.request)
        if known:
            core.compute_ahead(job(ids(2, 100)))
        steps(core)
        model = core.runner.model  # type: ignore[attr-defined]
        before = sum(model.steps)
        core.add(then.request)
        steps(core)
        for ask in (first, then):
            ask.check()
        found[known] = sum(model.steps) - before
        assert then.outcome is not None
        assert then.outcome.cached_tokens == 0, "it was computed for this call"
        hits = then.outcome.cached_tokens / (20 + 102)
        optimal = core.trie.optimal_hit_rate()
        assert optimal is not None
        assert hits <= optimal
    assert found[False] - found[True] == 99, "all but the last token of what was known"


def test_the_second_call_has_it_out_of_the_cache() -> None:
    core = make_core(400)
    core.compute_ahead(job(ids(3, 50)))
    steps(core)
    assert ahead(core) == 49
    asks = [Ask([*ids(3, 50), n], LONG) for n in (5, 6)]
    for ask in asks:
        core.add(ask.request)
        steps(core)
        ask.check()
    assert [a.outcome.cached_tokens for a in asks if a.outcome] == [0, 50]


def test_nothing_is_computed_ahead_where_a_call_waits() -> None:
    core = make_core(60, max_running=1)
    core.compute_ahead(job(ids(4, 30)))
    asks = [Ask(ids(5 + i, 10), LONG) for i in range(3)]
    for ask in asks:
        core.add(ask.request)
    while len(core.scheduler.waiting):
        core.step()
        assert ahead(core) == 0
    steps(core)
    for ask in asks:
        ask.check()
    assert ahead(core) > 0


def test_beside_running_gens_a_step_computes_little() -> None:
    core = make_core(400, ahead_tokens=10)
    model = core.runner.model  # type: ignore[attr-defined]
    ask = Ask(ids(8, 5), LONG)
    core.add(ask.request)
    core.compute_ahead(job(ids(9, 200)))
    steps(core)
    ask.check()
    beside = model.steps[1:12]  # the first step computes the prompt, too
    assert beside == [11] * 11
    assert ahead(core) == 199


def test_a_job_takes_no_memory_that_others_need() -> None:
    run = Simulation(100)
    held = run.add(ids(10, 30), 2, instance=1, more=9, regions=[(0, 1, 0)])
    run.run()
    run.add(ids(11, 10), 40, instance=1)
    run.scheduler.admission.ahead.add(job(ids(12, 90)))
    while not run.scheduler.idle:
        run.step()
        check_laws(run)
        assert run.cache.find(held.tokens[:31])[1] == 31
    assert run.metrics.retractions == 0
    assert 0 < run.scheduler.admission.ahead.num_tokens <= 100 - 31 - 49


def test_what_is_dropped_is_not_computed() -> None:
    core = make_core(400, prefill_tokens=10)
    first = job(ids(13, 100))
    core.compute_ahead(first)
    for _ in range(3):
        assert core.step()
        check_memory(core)
    first.dropped = True
    steps(core)
    assert ahead(core) == 30
    assert core.cache.referenced == 0


def test_a_step_that_fails_costs_the_job_alone() -> None:
    model = HistoryModel()
    core = make_core(400, model, prefill_tokens=10)
    core.compute_ahead(job(ids(14, 100)))
    model.fail_at = 3
    steps(core)
    assert len(core.scheduler.admission.ahead) == 0
    assert core.cache.referenced == 0
    ask = Ask(ids(14, 60), LONG)
    core.add(ask.request)
    steps(core)
    ask.check()


def test_random_jobs_change_nothing() -> None:
    rng = random.Random(15)
    for seed in range(8):
        core = make_core(rng.choice([60, 150, 400]), prefill_tokens=rng.choice([5, 64]))
        waiting = [Ask(ids(rng.randrange(6), rng.randrange(5, 30)), LONG) for _ in range(12)]
        asks, jobs = list(waiting), []
        while waiting or not core.scheduler.idle:
            if waiting and rng.random() < 0.3:
                core.add(waiting.pop().request)
            if rng.random() < 0.3:
                jobs.append(job(ids(rng.randrange(6), rng.randrange(1, 40))))
                core.compute_ahead(jobs[-1])
            if jobs and rng.random() < 0.1:
                rng.choice(jobs).dropped = True
            core.step()
            check_memory(core)
        steps(core)
        for ask in asks:
            ask.check()
        assert core.cache.referenced == 0, seed


def test_results_under_jobs_are_those_of_a_plain_loop() -> None:
    run = Simulation(80, prefill_tokens=6)
    requests = [run.add(ids(20 + i % 3, 15), 9, instance=i) for i in range(6)]
    for i in range(6):
        run.scheduler.admission.ahead.add(job(ids(20 + i, 30)))
    while not run.scheduler.idle:
        run.step()
        check_laws(run)
    for request in requests:
        assert request.output.tolist() == plain_output(request.prompt.tolist(), 9)
