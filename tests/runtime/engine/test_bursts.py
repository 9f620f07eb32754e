"""Requests that an event loop sends one after another begin in one step, and nobody waits for a
clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator

import numpy as np
import pytest
from support.engine import Ask, HistoryModel, make_core

from sgc_ir.params import SamplingParams
from sgc_runtime.cache.radix_tree import Node
from sgc_runtime.engine import bursts
from sgc_runtime.engine.bursts import FirstStep
from sgc_runtime.engine.engine import Engine
from sgc_runtime.engine.request import Outcome, Prefix
from sgc_runtime.engine.waiting import Waiter


@pytest.fixture
def model() -> HistoryModel:
    return HistoryModel()


@pytest.fixture
def engine(model: HistoryModel) -> Iterator[Engine]:
    made = Engine(make_core(4_000, model, overlap=True))
    yield made
    made.close()


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine changes nothing: only a clock would."""
    monkeypatch.setattr(bursts, "_LONGEST_S", 60.0)


def ask_of(number: int, max_tokens: int = 2) -> Ask:
    params = SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True)
    return Ask([2 + number, 3, 7], params)


async def call(engine: Engine, ask: Ask) -> Outcome:
    waiter = Waiter(engine)
    ask.request.on_done = waiter.on_done
    (ask.outcome,) = await waiter.run([ask.request])
    return ask.outcome


def both_waves(
    engine: Engine, wait: Callable[[int], Awaitable[object]], count: int = 20
) -> list[Ask]:
    """Two calls after each other in each of many tasks, which come to each by `wait`."""
    asks = [ask_of(i) for i in range(2 * count)]

    async def one(i: int) -> None:
        await wait(i)
        await call(engine, asks[i])
        await wait(i)
        await call(engine, asks[count + i])

    async def main() -> None:
        await asyncio.gather(*(one(i) for i in range(count)))

    asyncio.run(main())
    return asks


@pytest.mark.usefixtures("patience")
def test_calls_of_one_turn_and_of_the_next_begin_together(
    engine: Engine, model: HistoryModel
) -> None:
    async def wait(number: int) -> None:
        if number % 2:
            await asyncio.sleep(0)

    asks = both_waves(engine, wait)
    assert model.steps == [60, 20, 60, 20]
    for ask in asks:
        ask.check()


@pytest.mark.usefixtures("patience")
def test_one_call_after_another_waits_for_no_clock(engine: Engine) -> None:
    async def main() -> None:
        for i in range(20):
            await call(engine, ask_of(i))

    begin = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - begin < 50.0


@pytest.mark.usefixtures("patience")
def test_what_comes_while_others_run_begins_with_their_next_step(engine: Engine) -> None:
    async def main() -> None:
        long = asyncio.ensure_future(call(engine, ask_of(0, max_tokens=400)))
        while not engine.core.metrics.decode_steps:
            await asyncio.sleep(0)
        await asyncio.gather(*(call(engine, ask_of(i)) for i in range(1, 10)))
        assert not long.done()
        await long

    asyncio.run(main())


def test_a_loop_that_does_not_go_on_is_not_waited_for(engine: Engine) -> None:
    async def main() -> None:
        for i in range(3):
            waiter, ask = Waiter(engine), ask_of(i)
            work = asyncio.ensure_future(waiter.run([ask.request]))
            ask.request.on_done = waiter.on_done
            await asyncio.sleep(0)  # it is sent in this turn
            limit = time.monotonic() + 20
            while ask.request.num_tokens < 5 or not engine.core.rests:
                assert time.monotonic() < limit
                time.sleep(0.001)
            await work

    asyncio.run(main())


def test_a_loop_that_ends_is_not_waited_for(engine: Engine) -> None:
    async def send(ask: Ask) -> None:
        engine.submit([ask.request], asyncio.get_running_loop())

    asks = [ask_of(i) for i in range(3)]
    for ask in asks:
        asyncio.run(send(ask))
        limit = time.monotonic() + 20
        while ask.outcome is None:
            assert time.monotonic() < limit
            time.sleep(0.001)
        ask.check()


def test_a_full_step_waits_for_no_more_of_its_burst(model: HistoryModel) -> None:
    """All is sent before the engine looks, so that a step of everything could be made."""
    core = make_core(4_000, model, overlap=True, prefill_tokens=12)
    engine = Engine(core)
    taken: list[int] = []
    step = core.step

    def counting() -> bool:
        taken.append(len(core.open))
        return step()

    core.step = counting  # type: ignore[method-assign]
    try:
        asks = [ask_of(i) for i in range(20)]  # three tokens each

        async def main() -> None:
            await asyncio.gather(*(call(engine, ask) for ask in asks))

        asyncio.run(main())
    finally:
        engine.close()
    assert taken[0] == 4
    for ask in asks:
        ask.check()


def test_only_what_is_new_of_a_prompt_fills_the_first_step() -> None:
    room = FirstStep(10)
    room.add([Ask([2, 3, 4, 5, 6]).request])
    room.add([Ask([2, 3, 4, 5, 7]).request, Ask([2, 3, 4, 9]).request])
    assert not room.is_full  # 5 + 1 + 1
    root = Node(None, np.empty(0, np.int32), np.empty(0, np.int64), 0, 0)
    room.add([Ask([8, 8, 8, 8, 8], prefix=Prefix(root, 3)).request])
    assert not room.is_full  # + 2
    room.add([Ask([8, 8, 8, 8, 8]).request])
    assert room.is_full  # a prompt counts one at least: its last token is computed anyway
    room.begin()
    assert not room.is_full
