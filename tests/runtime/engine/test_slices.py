"""How the time of a step is shared out, by a clock that only work moves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sgc_ir.automata.limits import SliceEnded
from sgc_runtime.engine import slices
from sgc_runtime.engine.metrics import Metrics
from sgc_runtime.engine.request import State
from sgc_runtime.engine.slices import FIRST_S, GROWTH, LONGEST_S, STEP_S, Slices, Work


class Bench:
    """Slices over requests whose work takes a given time, part by part."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        clock = SimpleNamespace(thread_time=lambda: self.now)
        monkeypatch.setattr(slices, "time", clock)
        self.failed: list[tuple[Any, str]] = []
        self.metrics = Metrics()
        self.slices = Slices(self.metrics, lambda r, e: self.failed.append((r, str(e))))
        self.spent: list[tuple[str, float]] = []

    def request(self, name: str) -> Any:
        matcher = SimpleNamespace(num_found=0)
        guide = SimpleNamespace(matcher=matcher)
        return SimpleNamespace(name=name, guide=guide, aside=False, state=State.RUNNING)

    def work(self, request: Any, needed: float, steadily: bool = True, then: Any = None) -> Work:
        """Work of `needed` seconds; not `steadily`: all at once or nothing."""
        left = needed

        def do(seconds: float) -> Work | None:
            nonlocal left
            done = min(seconds, left)
            self.now += done
            self.spent.append((request.name, seconds))
            if steadily and done:
                left -= done
                request.guide.matcher.num_found += 1
            if done < needed if not steadily else left > 1e-9:
                raise SliceEnded
            if then is not None:
                then()
            return None

        return do


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def test_little_work_is_done_at_once(bench: Bench) -> None:
    done: list[str] = []
    request = bench.request("a")
    bench.slices.do([request], bench.work(request, 0.001, then=lambda: done.append("a")))
    assert done
    assert not request.aside
    assert len(bench.slices) == 0


def test_each_in_its_turn(bench: Bench) -> None:
    requests = [bench.request(name) for name in "abcd"]
    bench.slices.go_on()
    for request in requests:
        bench.slices.do([request], bench.work(request, 0.04))
    assert all(request.aside for request in requests)
    assert [s for _, s in bench.spent] == pytest.approx([FIRST_S, FIRST_S, 0.0, 0.0])
    bench.spent.clear()
    steps = 0
    while len(bench.slices):
        before = bench.now
        bench.slices.go_on()
        assert bench.now - before <= STEP_S + 1e-9
        steps += 1
    names = [name for name, _ in bench.spent]
    assert names[:4] == list("abcd")
    assert all(names.count(name) >= 4 for name in "abcd")
    assert all(seconds <= LONGEST_S + 1e-9 for _, seconds in bench.spent)
    assert bench.metrics.aside_steps > steps
    assert not any(request.aside for request in requests)


def test_what_gets_nowhere_has_longer_slices(bench: Bench) -> None:
    request = bench.request("a")
    bench.slices.do([request], bench.work(request, 0.1, steadily=False))
    while len(bench.slices):
        bench.slices.go_on()
    lengths = [seconds for _, seconds in bench.spent]
    assert lengths == pytest.approx([FIRST_S * GROWTH**i for i in range(len(lengths))])
    assert lengths[-2] < 0.1 <= lengths[-1]


def test_a_failure_is_that_of_its_requests(bench: Bench) -> None:
    one, other, third = (bench.request(name) for name in "abc")

    def fails(seconds: float) -> None:
        raise ValueError("no")

    bench.slices.do([one, other], fails)
    bench.slices.do([third], bench.work(third, 0.001))
    assert bench.failed == [(one, "no"), (other, "no")]
    assert len(bench.slices) == 0


def test_who_was_cancelled_gets_nothing_more(bench: Bench) -> None:
    request = bench.request("a")
    bench.slices.do([request], bench.work(request, 1.0))
    request.state = State.DONE
    bench.spent.clear()
    bench.slices.go_on()
    assert not bench.spent
    assert len(bench.slices) == 0


def test_parts_follow_each_other(bench: Bench) -> None:
    request, parts = bench.request("a"), list[int]()

    def part(number: int) -> Work:
        inner = bench.work(request, 0.012)

        def do(seconds: float) -> Work | None:
            inner(seconds)
            parts.append(number)
            return part(number + 1) if number < 2 else None

        return do

    bench.slices.do([request], part(0))
    while len(bench.slices):
        bench.slices.go_on()
    assert parts == [0, 1, 2]
