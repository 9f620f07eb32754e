"""The background event loop, from threads, from other loops and from a forked process."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from sgc_runtime.executor import loop
from sgc_runtime.executor.tools import run_tool


class Upper(NamedTuple):
    fn: Callable[..., Any] = str.upper
    name: str = "upper"
    effect: str = "pure"
    deadline: float | None = None
    retries: int | None = None


async def where() -> str:
    await asyncio.sleep(0)
    return threading.current_thread().name


def test_run_sync_works_alone_and_inside_a_running_loop() -> None:
    assert loop.run_sync(where()) == "sgc-runtime"

    async def inside() -> str:
        return loop.run_sync(where())

    assert asyncio.run(inside()) == "sgc-runtime"


def test_run_sync_on_the_runtime_thread_is_refused() -> None:
    async def inside() -> None:
        loop.run_sync(where())

    with pytest.raises(RuntimeError, match="await"):
        loop.run_sync(inside())


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_an_exit_in_a_task_ends_that_task_only(kind: type[BaseException]) -> None:
    async def leave() -> None:
        raise kind

    async def other() -> str:
        await asyncio.sleep(0.05)
        return await where()

    others = [loop.submit(other()) for _ in range(5)]
    with pytest.raises(kind):
        loop.run_sync(leave())
    loop.post(lambda: (_ for _ in ()).throw(kind()))
    assert [future.result(5) for future in others] == ["sgc-runtime"] * 5
    assert loop.run_sync(where()) == "sgc-runtime"


def test_wrap_awaits_from_any_loop_and_passes_cancellation_on() -> None:
    begun, ended = threading.Event(), threading.Event()

    async def long() -> None:
        begun.set()
        try:
            await asyncio.sleep(600)
        finally:
            ended.set()

    async def main() -> str:
        task = asyncio.ensure_future(loop.wrap(long()))
        while not begun.is_set():
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await loop.wrap(where())

    assert asyncio.run(main()) == "sgc-runtime"
    assert ended.wait(1.0)


def test_call_and_post_keep_order() -> None:
    seen: list[int] = []
    for i in range(10):
        loop.post(seen.append, i)
    assert loop.call(lambda: list(seen)) == list(range(10))
    with pytest.raises(ZeroDivisionError):
        loop.call(lambda: 1 // 0)


def test_posts_of_many_threads_are_all_run_each_in_its_order() -> None:
    seen: list[tuple[int, int]] = []

    def work(thread: int) -> None:
        for i in range(500):
            loop.post(seen.append, (thread, i))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    loop.call(lambda: None)
    assert len(seen) == 2000
    for n in range(4):
        assert [i for thread, i in seen if thread == n] == list(range(500))


def test_a_post_that_fails_stops_no_other() -> None:
    told: list[BaseException] = []
    seen: list[int] = []

    def fail() -> None:
        raise asyncio.CancelledError

    runtime = loop.runtime_loop()
    runtime.set_exception_handler(lambda _, context: told.append(context["exception"]))
    try:
        for i in range(3):
            loop.post(fail)
            loop.post(seen.append, i)
        assert loop.call(lambda: list(seen)) == [0, 1, 2]
    finally:
        runtime.set_exception_handler(None)
    assert [type(error) for error in told] == [asyncio.CancelledError] * 3


def test_ask_waits_for_an_answer_that_comes_later() -> None:
    def later(answer: loop.Answer) -> None:
        asyncio.get_running_loop().call_later(0.02, answer, 7, None)

    assert loop.ask(later) == 7
    with pytest.raises(KeyError):
        loop.ask(lambda answer: answer(None, KeyError("x")))

    async def inside() -> None:
        loop.ask(later)

    with pytest.raises(RuntimeError, match="own thread"):
        loop.run_sync(inside())


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_gets_a_loop_of_its_own() -> None:
    loop.run_sync(where())
    pid = os.fork()
    if pid == 0:
        os._exit(0 if loop.run_sync(where()) == "sgc-runtime" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_gets_tool_threads_of_its_own() -> None:
    assert loop.run_sync(run_tool(Upper(), ["a"], {})) == "A"
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        os._exit(0 if loop.run_sync(run_tool(Upper(), ["a"], {})) == "A" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
