"""Recorded steps: what the device does in a step of a given size, replayed by one call."""

from __future__ import annotations

import contextlib
import gc
import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Protocol

import torch

_LOG = logging.getLogger("sgc")
SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256)
_STEP = 64  # between sizes above
# What the driver takes for a graph of some 400 kernels (8 MB on an H200). It cannot be read: what
# the device has free changes with other processes, too.
_DRIVER_BYTES = 8 << 20

Body = Callable[[], torch.Tensor]


def padded(tokens: int) -> int:
    """The size that a step of so many tokens is recorded for."""
    if tokens > SIZES[-1]:
        return -(-tokens // _STEP) * _STEP
    return next(size for size in SIZES if size >= tokens)


def sizes(first: int, last: int) -> list[int]:
    """All padded sizes from one to another."""
    found = [padded(first)]
    while found[-1] <= last:
        found.append(padded(found[-1] + 1))
    return found[:-1]


class Recorded(Protocol):
    """A step that can be replayed; its result lies in the same memory each time."""

    @property
    def result(self) -> torch.Tensor: ...

    def replay(self) -> None: ...


class Recorder(Protocol):
    """Records what a body launches, without running it."""

    @property
    def bytes_taken(self) -> int:
        """Memory of all that was recorded."""
        ...

    def record(self, body: Body) -> Recorded: ...


@dataclass(frozen=True, slots=True)
class _Eager:
    body: Body
    result: torch.Tensor

    def replay(self) -> None:
        self.result.copy_(self.body())


class EagerRecorder:
    """For devices without graphs: replaying runs the body."""

    bytes_taken = 0

    def record(self, body: Body) -> Recorded:
        return _Eager(body, body().clone())


@dataclass(frozen=True, slots=True)
class _Graph:
    graph: torch.cuda.CUDAGraph
    result: torch.Tensor

    def replay(self) -> None:
        self.graph.replay()


class CudaRecorder:
    """CUDA graphs over one pool of memory, which they share: only one runs at a time, and of what
    it leaves only `result` is read, before the next one."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()
        self.bytes_taken = 0

    def record(self, body: Body) -> Recorded:
        before = torch.cuda.memory_reserved(self._device)
        graph = torch.cuda.CUDAGraph()
        main = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(main)
        collects = gc.isenabled()
        gc.disable()  # what is freed meanwhile might call CUDA, which spoils a capture
        try:
            with torch.cuda.stream(self._stream):
                # Other threads may use CUDA meanwhile.
                graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
                try:
                    result = body()
                except BaseException:
                    with contextlib.suppress(RuntimeError):  # what is wrong is known better
                        graph.capture_end()
                    self._pool = torch.cuda.graph_pool_handle()  # that one may be gone with it
                    raise
                graph.capture_end()
        finally:
            if collects:
                gc.enable()
        main.wait_stream(self._stream)
        taken = torch.cuda.memory_reserved(self._device) - before
        self.bytes_taken += max(0, taken) + _DRIVER_BYTES
        return _Graph(graph, result)


class Graphs:
    """Recorded steps by what they differ in (their size, say).

    Args:
        budget: bytes; once so much is taken, nothing new is recorded.
    """

    def __init__(self, recorder: Recorder, budget: int) -> None:
        self._recorder, self._budget = recorder, budget
        self._entries: dict[Hashable, Recorded] = {}
        self._refused: set[Hashable] = set()  # what cannot be recorded
        self._dropped: Recorded | None = None
        self.recordings = 0

    @property
    def bytes_taken(self) -> int:
        return self._recorder.bytes_taken

    @property
    def has_room(self) -> bool:
        return self.bytes_taken < self._budget

    def find(self, key: Hashable) -> Recorded | None:
        """What was recorded under `key`."""
        return self._entries.get(key)

    def drop(self, key: Hashable) -> None:
        """Give up what was recorded under `key`, if anything."""
        dropped = self._entries.pop(key, None)
        if not self._entries:  # the shared memory goes with the last one
            self._dropped = dropped or self._dropped

    def record(self, key: Hashable, body: Body) -> Recorded | None:
        """Record a body that has run before, so that all its kernels are compiled. What cannot be
        recorded is not tried again."""
        if not self.has_room or key in self._refused:
            return None
        try:
            self._entries[key] = self._recorder.record(body)
            self.recordings += 1
            self._dropped = None
        except torch.OutOfMemoryError:
            self._budget = 0
        except RuntimeError as error:
            self._refused.add(key)
            _LOG.warning(
                "a step cannot be recorded as a graph (%s); steps like it are launched kernel by "
                "kernel: %r",
                str(error).partition("\n")[0],
                key,
            )
        if not self.has_room:
            _LOG.warning(
                "graphs of steps have taken %d MB, all that there is for them: other steps "
                "are launched kernel by kernel; give more by --graph-memory",
                self.bytes_taken >> 20,
            )
        return self._entries.get(key)
