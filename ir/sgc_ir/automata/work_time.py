"""Processor time of the thread at work, without what the collection of garbage takes of it: that
depends on all that the process holds, and takes seconds of one thread where it holds much."""

from __future__ import annotations

import gc
import threading
import time

_LONG = 2  # generation; collections of the younger ones are short


class _Collections(threading.local):
    """Of this thread: processor time of its long collections, and when the last one began."""

    seconds: float = 0.0
    began: float = 0.0


_collections = _Collections()


def _note(phase: str, info: dict[str, int]) -> None:
    if info["generation"] != _LONG:
        return
    if phase == "start":
        _collections.began = time.thread_time()
    else:
        _collections.seconds += time.thread_time() - _collections.began


gc.callbacks.append(_note)


def work_time() -> float:
    """Seconds that only grow, of this thread; differences count."""
    return time.thread_time() - _collections.seconds
