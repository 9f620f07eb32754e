"""Body threads: one for each body that runs, used again, gone when nothing needs them."""

from __future__ import annotations

import contextvars
import gc
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from sgc.lang import workers
from sgc.lang.workers import Outcome, start_body
from sgc_runtime.executor.loop import run_sync

CONTEXT = contextvars.copy_context()


async def body(run: Callable[[], Any]) -> Outcome:
    return await start_body(run, "sgc-test", CONTEXT)


def test_bodies_one_after_the_other_share_a_thread() -> None:
    idents = {run_sync(body(threading.get_ident))[0] for _ in range(20)}
    assert len(idents) == 1


def test_a_body_may_wait_for_more_bodies_than_there_are_idle_threads() -> None:
    def nested(depth: int) -> int:
        return 0 if depth == 0 else 1 + int(run_sync(body(lambda: nested(depth - 1)))[0])

    assert run_sync(body(lambda: nested(workers.MAX_IDLE + 10))) == (workers.MAX_IDLE + 10, None)
    assert len(workers._idle) <= workers.MAX_IDLE


def test_what_a_body_raises_ends_the_body_only() -> None:
    def leave() -> None:
        raise SystemExit(3)

    value, error = run_sync(body(leave))
    assert value is None
    assert isinstance(error, SystemExit)
    assert run_sync(body(lambda: 1)) == (1, None)


def test_an_idle_thread_ends_and_keeps_nothing_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    class Held:
        pass

    def holder() -> weakref.ref[Held]:
        held = Held()
        assert run_sync(body(lambda: held)) == (held, None)
        return weakref.ref(held)

    seen = holder()
    gc.collect()
    assert _soon(lambda: seen() is None)

    while workers._idle:  # those wait for long already
        workers._idle.pop()
    monkeypatch.setattr(workers, "IDLE_S", 0.02)
    thread, _ = run_sync(body(threading.current_thread))
    assert _soon(lambda: not thread.is_alive())
    assert not workers._idle
    assert run_sync(body(lambda: 1)) == (1, None)


def test_a_context_is_copied_for_each_body() -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)

    def count() -> int:
        variable.set(variable.get() + 1)
        return variable.get()

    assert [run_sync(body(count))[0] for _ in range(3)] == [1, 1, 1]


def _soon(true: Callable[[], bool]) -> bool:
    end = time.monotonic() + 5.0
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True
