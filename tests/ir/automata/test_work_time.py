"""The time of work: that of this thread, but for collections of garbage."""

from __future__ import annotations

import gc
import time

from sgc_ir.automata.limits import Watch
from sgc_ir.automata.work_time import work_time


def collect(seconds: float) -> None:
    """Collect garbage, in all for `seconds` of processor time."""
    much = [[] for _ in range(300_000)]
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        gc.collect()
    del much


def test_collections_do_not_count_and_work_does() -> None:
    before = work_time()
    collect(0.3)
    assert work_time() - before < 0.2
    end, before = time.thread_time() + 0.2, work_time()
    while time.thread_time() < end:
        pass
    assert 0.15 < work_time() - before < 0.4


def test_a_collection_uses_up_no_limit() -> None:
    watch = Watch(0.25)
    watch.tick(1000)
    collect(0.4)
    watch.tick(1000)
