"""Compiled code runs on torch's own threads."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from sgc_kernels.openmp import parallel_address, parallel_call

_TASKS = Path("/proc/self/task")
_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

pytestmark = pytest.mark.skipif(not _TASKS.exists(), reason="needs Linux")


@pytest.fixture
def threads() -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield 3
    torch.set_num_threads(before)


def tasks() -> set[str]:
    return {task.name for task in _TASKS.iterdir()}


def test_threads_are_those_of_torch(threads: int) -> None:
    """Whoever computes was there before, when torch had computed with as many."""
    torch.ones(1 << 22).sum()
    before = tasks()
    meeting = threading.Barrier(threads, timeout=20)  # so that no thread does two shares
    seen: list[tuple[int, int | None]] = []

    def share(argument: int | None) -> None:
        seen.append((threading.get_native_id(), argument))
        meeting.wait()

    call, function = parallel_call(), _FUNCTION(share)
    assert call is not None
    call(ctypes.cast(function, ctypes.c_void_p).value or 0, 42, threads, 0)
    assert {argument for _, argument in seen} == {42}
    assert len({str(task) for task, _ in seen}) == threads
    assert {str(task) for task, _ in seen} <= before


def test_the_call_is_what_lies_at_the_address() -> None:
    call = parallel_call()
    assert ctypes.cast(call, ctypes.c_void_p).value == parallel_address()  # type: ignore[arg-type]
