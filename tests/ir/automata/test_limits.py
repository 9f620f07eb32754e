"""The deadline of work that several threads do in turns."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from sgc_ir.automata.limits import SliceEnded, Watch, at_each_look, time_slice
from sgc_ir.errors import ConstraintError

ENOUGH = 10_000


def burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_work_beyond_the_deadline_is_ended() -> None:
    watch = Watch(0.05)
    watch.tick(ENOUGH)
    burn(0.06)
    with pytest.raises(ConstraintError, match=r"longer than 0\.05 s"):
        watch.tick(ENOUGH)


def test_no_thread_is_held_to_the_clock_of_another_one() -> None:
    watch = Watch(0.05)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(watch.tick, ENOUGH).result()
        burn(0.1)  # this thread's clock is now beyond the other one's deadline
        watch.tick(ENOUGH)


def test_a_slice_ends_in_the_thread_that_took_it() -> None:
    watch = Watch(10)
    with ThreadPoolExecutor(1) as pool, time_slice(0.01):
        burn(0.02)
        pool.submit(watch.tick, ENOUGH).result()
        with pytest.raises(SliceEnded):
            watch.tick(ENOUGH)
    watch.tick(ENOUGH)


def test_little_work_is_done_whatever_the_slice() -> None:
    watch = Watch(10)
    with time_slice(0.0):
        for _ in range(100):
            watch.restart("a step")
            watch.tick(100)


def test_who_is_called_at_each_look_is_so_in_short_steps_too() -> None:
    watch, calls = Watch(10), list[None]()
    with at_each_look(lambda: calls.append(None)):
        for _ in range(100):
            watch.restart("a step")
            watch.tick(100)
    assert 30 < len(calls) <= 100
