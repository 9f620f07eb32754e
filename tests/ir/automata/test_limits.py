"""The deadline of work that several threads do in turns."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from sgc_ir.automata.limits import Watch
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
