"""Where the time of an engine's steps goes: on the host and on the GPU, by kind of work.

    with profile.step():
        with profile.span("schedule"):
            ...
        with profile.device_span("decode"):  # launches kernels, or computes on a CPU
            ...

On the host a moment belongs to the innermost span only; what of a step lies in none is `other`.
A `device_span` also lays a CUDA event before and one behind what it launches on the current stream.
They are read in later steps, when they have passed: nothing waits for them. Between two such spans
the GPU idles; it may idle within one, too, when it works off single launches faster than they come,
which events do not show.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import torch

from sgc_runtime.engine.durations import Durations

Span = AbstractContextManager[None, None]

# `wait`: the host waits for tokens that the GPU is choosing.
KINDS = ("schedule", "prepare", "prefill", "decode", "sample", "masks", "wait", "output")
OTHER = "other"
IDLE = "idle"


class Profiling(Protocol):
    """What the engine's parts call; everything in the engine's thread."""

    def step(self) -> Span:
        """The whole of one step."""
        ...

    def span(self, kind: str) -> Span:
        """Host time of `kind`, one of `KINDS`. Spans may be nested."""
        ...

    def device_span(self, kind: str) -> Span:
        """Host time of `kind`, and GPU time of what is launched; not to be nested in another."""
        ...

    def rest(self) -> None:
        """There is nothing to do: until the next step no idle time counts."""
        ...


class NoProfile:
    """Takes no time and keeps nothing."""

    def step(self) -> Span:
        return _NOTHING

    def span(self, kind: str) -> Span:
        return _NOTHING

    def device_span(self, kind: str) -> Span:
        return _NOTHING

    def rest(self) -> None:
        return


class Profile:
    """Sums, medians and tails by kind. Only `to_dict` may be called from another thread.

    Args:
        device: where the model is; spans of other devices than GPUs have host time only.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._host = {kind: Durations() for kind in (*KINDS, OTHER)}
        self._steps = Durations()
        self._events: _DeviceClock | None = None
        self._stack: list[str] = []
        self._mark = 0.0  # when the innermost span began or went on
        self._begun = 0.0
        self._spent = dict.fromkeys(self._host, 0.0)  # in this step
        self._step = _Step(self)
        self._spans = {kind: _HostSpan(self, kind) for kind in KINDS}
        self._device_spans: Mapping[str, Span] = self._spans
        if device.type == "cuda":
            clock = self._events = _DeviceClock(device)
            self._device_spans = {kind: _DeviceSpan(self, clock, kind) for kind in KINDS}

    def step(self) -> Span:
        return self._step

    def span(self, kind: str) -> Span:
        return self._spans[kind]

    def device_span(self, kind: str) -> Span:
        return self._device_spans[kind]

    def rest(self) -> None:
        if self._events is not None:
            self._events.rest()

    def to_dict(self) -> dict[str, Any]:
        """Plain data: `device`, `steps`, `seconds` in steps, `host` by kind, `gpu` by kind (also
        `idle`) and `gpu_idle_share`, the last two None without a GPU."""
        seconds = self._steps.seconds
        host = {kind: d.to_dict(seconds) for kind, d in self._host.items() if d.count}
        found: dict[str, Any] = {
            "device": str(self.device),
            "steps": self._steps.count,
            "seconds": seconds,
            "step": self._steps.to_dict(seconds),
            "host": host,
            "gpu": None,
            "gpu_idle_share": None,
        }
        if self._events is not None:
            found["gpu"], found["gpu_idle_share"] = self._events.to_dict()
        return found

    # -- the clock ----------------------------------------------------------------------------

    def _enter(self, kind: str) -> None:
        now = perf_counter()
        if self._stack:
            self._spent[self._stack[-1]] += now - self._mark
        self._stack.append(kind)
        self._mark = now

    def _leave(self) -> None:
        now = perf_counter()
        self._spent[self._stack.pop()] += now - self._mark
        self._mark = now

    def _begin_step(self) -> None:
        self._begun = perf_counter()

    def _end_step(self) -> None:
        whole = perf_counter() - self._begun
        self._steps.add(whole)
        known = 0.0
        for kind, spent in self._spent.items():
            if spent:
                known += spent
                self._host[kind].add(spent)
                self._spent[kind] = 0.0
        self._host[OTHER].add(max(0.0, whole - known))
        if self._events is not None:
            self._events.read()


NO_PROFILE = NoProfile()


class _Nothing(AbstractContextManager[None, None]):
    def __enter__(self) -> None:
        return

    def __exit__(self, *_: object) -> None:
        return


_NOTHING = _Nothing()


@dataclass(slots=True)
class _Step(AbstractContextManager[None, None]):
    profile: Profile

    def __enter__(self) -> None:
        self.profile._begin_step()

    def __exit__(self, *_: object) -> None:
        self.profile._end_step()


@dataclass(slots=True)
class _HostSpan(AbstractContextManager[None, None]):
    profile: Profile
    kind: str

    def __enter__(self) -> None:
        self.profile._enter(self.kind)

    def __exit__(self, *_: object) -> None:
        self.profile._leave()


@dataclass(slots=True)
class _DeviceSpan(AbstractContextManager[None, None]):
    profile: Profile
    clock: _DeviceClock
    kind: str

    def __enter__(self) -> None:
        self.profile._enter(self.kind)
        self.clock.begin(self.kind)

    def __exit__(self, *_: object) -> None:
        self.clock.end()
        self.profile._leave()


@dataclass(slots=True)
class _Passage:
    """One span on the GPU; `follows` is the end of the one before, unless the engine rested."""

    kind: str
    begin: torch.cuda.Event
    end: torch.cuda.Event
    follows: torch.cuda.Event | None


class _DeviceClock:
    """Events around what is launched, read once they have passed."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._busy: dict[str, Durations] = {}
        self._idle = Durations()
        self._open: deque[_Passage] = deque()
        self._free: list[torch.cuda.Event] = []
        self._last: torch.cuda.Event | None = None

    def begin(self, kind: str) -> None:
        passage = _Passage(kind, self._event(), self._event(), self._last)
        self._open.append(passage)
        self._last = passage.end
        passage.begin.record(torch.cuda.current_stream(self._device))

    def end(self) -> None:
        self._open[-1].end.record(torch.cuda.current_stream(self._device))

    def read(self) -> None:
        """Take the times of all spans that the GPU has passed."""
        while self._open and _has_passed(self._open[0].end):
            passage = self._open.popleft()
            busy = self._busy.setdefault(passage.kind, Durations())
            busy.add(1e-3 * passage.begin.elapsed_time(passage.end))
            self._free.append(passage.begin)
            if passage.follows is not None:
                self._idle.add(1e-3 * passage.follows.elapsed_time(passage.begin))
                self._free.append(passage.follows)

    def rest(self) -> None:
        self.read()
        self._last = None

    def to_dict(self) -> tuple[dict[str, Any], float | None]:
        kinds = dict(self._busy)
        whole = sum(d.seconds for d in kinds.values()) + self._idle.seconds
        found = {kind: d.to_dict(whole) for kind, d in kinds.items()}
        found[IDLE] = self._idle.to_dict(whole)
        return found, self._idle.seconds / whole if whole else None

    def _event(self) -> torch.cuda.Event:
        return self._free.pop() if self._free else _timed_event()


def _timed_event() -> torch.cuda.Event:
    event: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    return event


def _has_passed(event: torch.cuda.Event) -> bool:
    passed: bool = event.query()  # type: ignore[no-untyped-call]
    return passed
