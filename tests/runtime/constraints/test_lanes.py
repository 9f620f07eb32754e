"""Threads for jobs of which some take long."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from sgc_ir.automata.limits import Watch
from sgc_runtime.constraints import lanes as module
from sgc_runtime.constraints.lanes import QUICK_S, Job, Lanes


@pytest.fixture
def hanging() -> Iterator[threading.Event]:
    """What jobs of `hang` wait for."""
    go = threading.Event()
    yield go
    go.set()


def hang(go: threading.Event) -> Job:
    def work() -> Callable[[], None]:
        go.wait(60)
        return lambda: None

    return Job(work)


def busy(done: threading.Event) -> Job:
    """One that goes on in the slow lane."""

    def work() -> Callable[[], None]:
        watch, end = Watch(1000), time.thread_time() + 4 * QUICK_S
        while time.thread_time() < end:
            watch.tick(1000)
        return done.set

    return Job(work)


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("idle_s", [0.05, 60.0], ids=["ended", "waiting"])
def test_who_was_put_off_goes_on_when_a_job_is_given_up(
    hanging: threading.Event, monkeypatch: pytest.MonkeyPatch, idle_s: float
) -> None:
    monkeypatch.setattr(module, "_IDLE_S", idle_s)
    monkeypatch.setattr(module, "_STUCK_S", 0.05)
    lanes, done = Lanes(1, 1, lambda: False), threading.Event()
    hung, other = hang(hanging), busy(done)
    lanes.put(hung)
    time.sleep(0.1)
    lanes.put(other)
    until(lambda: other.is_slow)
    time.sleep(0.2)
    assert not done.is_set()
    assert lanes.give_up(0.1) == [hung]
    assert done.wait(60)


def test_jobs_may_begin_and_end_while_others_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    monkeypatch.setattr(module, "_BURST_S", {False: 0.0, True: 0.0})
    monkeypatch.setattr(module, "_LONGEST_REST_S", 0.0)
    failed: list[BaseException] = []
    left = threading.Semaphore(0)

    def look() -> Callable[[], None]:
        watch = Watch(1000)
        try:
            for _ in range(10):
                watch.tick(1000)
        except RuntimeError as error:
            failed.append(error)
        return left.release

    lanes = Lanes(8, 8, lambda: True)
    try:
        for _ in range(2000):
            lanes.put(Job(look))
        assert all(left.acquire(timeout=60) for _ in range(2000))
    finally:
        sys.setswitchinterval(before)
    assert not failed
