"""Times by kind against a clock and a GPU that the test drives."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sgc_runtime.engine import profile as module
from sgc_runtime.engine.durations import Durations
from sgc_runtime.engine.profile import KINDS, NO_PROFILE, Profile

CPU = torch.device("cpu")


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now

    def pass_ms(self, ms: float) -> None:
        self.now += 1e-3 * ms


@dataclass
class Stream:
    """A GPU: what is launched begins when it is launched and all before it is done."""

    clock: Clock
    done: float = 0.0

    def launch(self, ms: float) -> None:
        self.done = max(self.done, self.clock.now) + 1e-3 * ms


@dataclass
class Event:
    stream: Stream
    at: float = field(default=float("nan"))

    def record(self, stream: Stream) -> None:
        self.at = max(stream.done, stream.clock.now)

    def query(self) -> bool:
        return self.at <= self.stream.clock.now

    def elapsed_time(self, end: Event) -> float:
        assert all(event.query() for event in (self, end)), "read before it has passed"
        return 1e3 * (end.at - self.at)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "perf_counter", clock)
    return clock


@pytest.fixture
def stream(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Stream:
    stream = Stream(clock)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    monkeypatch.setattr(module, "_timed_event", lambda: Event(stream))
    return stream


def seconds(found: dict[str, Any]) -> dict[str, float]:
    return {kind: round(figures["seconds"], 9) for kind, figures in found.items()}


def test_a_moment_belongs_to_the_innermost_span(clock: Clock) -> None:
    profile = Profile(CPU)
    for _ in range(2):
        with profile.step():
            clock.pass_ms(1)
            with profile.span("schedule"):
                clock.pass_ms(2)
            with profile.device_span("decode"):
                clock.pass_ms(10)
                with profile.span("masks"):
                    clock.pass_ms(3)
                    with profile.span("masks"):
                        clock.pass_ms(1)
                clock.pass_ms(5)
        clock.pass_ms(50)  # between steps
    found = profile.to_dict()
    assert found["steps"] == 2
    assert found["seconds"] == pytest.approx(0.044)
    assert seconds(found["host"]) == {
        "schedule": 0.004,
        "decode": 0.03,
        "masks": 0.008,
        "other": 0.002,
    }
    assert found["host"]["masks"]["count"] == 2, "once a step"
    assert found["host"]["decode"]["share"] == pytest.approx(30 / 44)
    assert found["gpu"] is None
    assert found["gpu_idle_share"] is None


def test_a_step_that_fails_leaves_no_span_open(clock: Clock) -> None:
    profile = Profile(CPU)
    with suppress(ValueError), profile.step(), profile.span("sample"):
        clock.pass_ms(4)
        raise ValueError
    with profile.step():
        clock.pass_ms(1)
    assert seconds(profile.to_dict()["host"]) == {"sample": 0.004, "other": 0.001}


def test_gpu_time_and_idle_time(clock: Clock, stream: Stream) -> None:
    profile = Profile(torch.device("cuda", 1))
    for _ in range(3):
        with profile.step():
            with profile.device_span("decode"):
                stream.launch(6)
            with profile.device_span("sample"):
                clock.pass_ms(1)
                stream.launch(2)
            clock.pass_ms(9)  # of 10 ms a step, the GPU works 8
    clock.pass_ms(20)
    with profile.step():
        pass
    found = profile.to_dict()
    assert found["device"] == "cuda:1"
    assert seconds(found["gpu"]) == {"decode": 0.018, "sample": 0.006, "idle": 0.004}
    assert found["gpu_idle_share"] == pytest.approx(4 / 28)


def test_a_gpu_that_is_kept_busy_never_idles(clock: Clock, stream: Stream) -> None:
    profile = Profile(torch.device("cuda", 0))
    for _ in range(10):
        with profile.step(), profile.device_span("decode"):
            stream.launch(10)
            clock.pass_ms(1)
    clock.pass_ms(500)
    profile.rest()
    found = profile.to_dict()
    assert seconds(found["gpu"]) == {"decode": 0.1, "idle": 0.0}
    assert found["gpu_idle_share"] == 0.0


def test_while_there_is_nothing_to_do_no_idle_time_counts(clock: Clock, stream: Stream) -> None:
    profile = Profile(torch.device("cuda", 0))
    for _ in range(2):
        for _ in range(2):
            with profile.step():
                with profile.device_span("decode"):
                    stream.launch(4)
                clock.pass_ms(5)
        profile.rest()
        clock.pass_ms(1_000)
    assert seconds(profile.to_dict()["gpu"]) == {"decode": 0.016, "idle": 0.002}


def test_what_the_gpu_has_not_passed_is_not_waited_for(clock: Clock, stream: Stream) -> None:
    profile = Profile(torch.device("cuda", 0))
    with profile.step(), profile.device_span("prefill"):
        stream.launch(100)
    assert profile.to_dict()["gpu"] == {"idle": Durations().to_dict(0.0)}
    assert profile.to_dict()["gpu_idle_share"] is None
    clock.pass_ms(100)
    with profile.step():
        pass
    assert seconds(profile.to_dict()["gpu"])["prefill"] == 0.1


def test_without_a_profile_spans_do_nothing() -> None:
    with NO_PROFILE.step():
        for kind in KINDS:
            with NO_PROFILE.span(kind), NO_PROFILE.device_span(kind):
                pass
    NO_PROFILE.rest()


@given(
    st.lists(st.floats(1e-8, 1e3), min_size=1, max_size=50), st.sampled_from([0.01, 0.5, 0.9, 1.0])
)
def test_quantiles_are_within_five_percent(values: list[float], share: float) -> None:
    durations = Durations()
    for value in values:
        durations.add(value)
    exact = sorted(values)[max(0, -(-share * len(values) // 1).__int__() - 1)]
    assert durations.quantile(share) == pytest.approx(exact, rel=0.05)
    assert durations.seconds == pytest.approx(sum(values))
    assert durations.longest == max(values)
