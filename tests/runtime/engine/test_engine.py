"""The engine's thread: hand-over in batches, sleep without work, break-downs that are told."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest
from support.engine import Ask, HistoryModel, make_core

from sgc_ir.errors import BackendError
from sgc_ir.params import SamplingParams
from sgc_runtime.engine.engine import Engine
from sgc_runtime.engine.request import Outcome, Request


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = Engine(make_core(400))
    yield made
    made.close()


def wait(*asks: Ask) -> None:
    limit = time.monotonic() + 20
    while any(a.outcome is None for a in asks):
        assert time.monotonic() < limit
        time.sleep(0.002)


def test_requests_from_many_threads(engine: Engine) -> None:
    asks = [Ask([2 + i, 3, 4]) for i in range(20)]
    threads = [threading.Thread(target=engine.submit, args=([a.request],)) for a in asks]
    for thread in threads:
        thread.start()
    wait(*asks)
    for ask in asks:
        ask.check()


def test_idle_costs_no_processor_time(engine: Engine) -> None:
    ask = Ask([2, 3])
    engine.submit([ask.request])
    wait(ask)
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 0.25  # a loop that spins takes all of it


def test_results_of_a_step_come_in_one_call() -> None:
    model = HistoryModel()
    engine = Engine(make_core(400, model))

    async def main() -> tuple[int, list[Outcome]]:
        loop = asyncio.get_running_loop()
        wakeups, outcomes = 0, []
        original = loop.call_soon_threadsafe

        def counted(*args: object, **kwargs: object) -> asyncio.Handle:
            nonlocal wakeups
            wakeups += 1
            return original(*args, **kwargs)  # type: ignore[arg-type]

        loop.call_soon_threadsafe = counted  # type: ignore[method-assign]
        params = SamplingParams(temperature=0, max_tokens=5, ignore_eos=True)
        asks = [Ask([2 + i, 3], params) for i in range(30)]
        for ask in asks:
            ask.request.on_done = lambda _, o: engine.post(loop, outcomes.append, o)
        engine.submit([a.request for a in asks])
        while len(outcomes) < 30:
            await asyncio.sleep(0.002)
        return wakeups, outcomes

    wakeups, outcomes = asyncio.run(main())
    engine.close()
    assert wakeups == 1
    assert all(o.error is None for o in outcomes)


def test_a_closed_loop_harms_nobody(engine: Engine) -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    lost, fine = Ask([2, 3]), Ask([4, 5])

    def to_closed_loop(request: Request, outcome: Outcome) -> None:
        engine.post(loop, print, outcome)
        lost.outcome = outcome

    lost.request.on_done = to_closed_loop
    engine.submit([lost.request])
    wait(lost)
    engine.submit([fine.request])
    wait(fine)
    fine.check()


def test_close_answers_everybody() -> None:
    engine = Engine(make_core(40_000))
    params = SamplingParams(temperature=0, max_tokens=10_000, ignore_eos=True)
    asks = [Ask([2 + i], params) for i in range(3)]
    engine.submit([a.request for a in asks])
    engine.close()
    assert all("was closed" in str(a.outcome and a.outcome.error) for a in asks)
    with pytest.raises(BackendError, match="closed"):
        engine.submit([Ask([2]).request])
    engine.close()


def test_a_broken_scheduler_is_told_and_not_waited_for() -> None:
    core = make_core(400)
    engine = Engine(core)
    core.scheduler.plan = lambda: 1 // 0  # type: ignore[method-assign, assignment, return-value]
    ask = Ask([2, 3])
    engine.submit([ask.request])
    wait(ask)
    assert ask.outcome is not None
    assert "broke down" in str(ask.outcome.error)
    with pytest.raises(BackendError):
        engine.submit([Ask([2]).request])
    engine.close()


@pytest.mark.parametrize("where", ["add", "admission", "computed"])
def test_what_a_broken_scheduler_has_lost_is_answered(where: str) -> None:
    core = make_core(400)
    engine = Engine(core)
    asks = [Ask([2 + i, 3]) for i in range(3)]
    if where == "add":
        core.scheduler.add = lambda _: 1 // 0  # type: ignore[method-assign, assignment, return-value]
    elif where == "computed":  # locks are half moved: nobody may go on with them
        core.scheduler.computed = lambda _: 1 // 0  # type: ignore[method-assign, assignment, return-value]
    else:  # when the clock is asked, the request has left the queue
        asks[1].request.times = None  # type: ignore[assignment]
    engine.submit([a.request for a in asks])
    wait(*asks)
    assert all("broke down" in str(a.outcome and a.outcome.error) for a in asks)
    engine.close()
