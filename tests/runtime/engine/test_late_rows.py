"""Rows that have stood aside get their ids before anything else is launched, and are the same."""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support.engine import HistoryModel
from support.mixes import Asked, FallingAside, Mix, Wish

from sgc_ir.params import SamplingParams
from sgc_runtime.cache.kv_pool import KVPool
from sgc_runtime.constraints.matcher import Matcher
from sgc_runtime.engine.config import EngineConfig
from sgc_runtime.engine.core import EngineCore
from sgc_runtime.engine.host_runner import HostFlight, HostLaunched, HostRunner
from sgc_runtime.engine.late_rows import LateRows
from sgc_runtime.engine.lookahead import Lookahead
from sgc_runtime.engine.request import Request, State
from sgc_runtime.engine.runner import Results
from sgc_runtime.engine.scheduler import Chunk
from sgc_runtime.engine.slices import Slices


class NotedFlight:
    def __init__(self, inner: HostFlight, runner: NotingRunner, name: str) -> None:
        self.inner, self._runner, self._name = inner, runner, name

    def result(self) -> Results:
        self._runner.notes.append(self._name)
        return self.inner.result()


class NotingRunner(HostRunner):
    """Notes what begins and what is waited for."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.notes: list[str] = []

    def launch(self, chunks: Sequence[Chunk]) -> HostLaunched:
        self.notes.append("launch")
        return super().launch(chunks)

    def sample(self, *args: Any) -> Any:
        return NotedFlight(super().sample(*args), self, "ids")

    def sample_kept(self, rows: Sequence[Request], logits: Sequence[torch.Tensor]) -> Any:
        self.notes.append("late begins")
        return NotedFlight(super().sample_kept(rows, logits), self, "late ids")

    def again(self, flight: Any, *args: Any) -> list[int]:
        return super().again(flight.inner, *args)


def test_no_launch_holds_late_rows_up(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    mix = Mix(tmp_path_factory.mktemp("late"))
    params = SamplingParams(temperature=0.0, max_tokens=16, logprobs=True)
    wishes = [Wish((5, 6 + i), params, 0, r"[a-z ]{9,12}") for i in range(4)]
    expected = [mix.alone(wish) for wish in wishes]
    kv = KVPool(1, 400, 1, 1, torch.float32, torch.device("cpu"))
    runner = NotingRunner(HistoryModel(mix.vocab), kv)
    core = EngineCore(runner, EngineConfig(kv_tokens=400, overlap=True))
    falls = FallingAside(random.Random(3), 0.4)
    monkeypatch.setattr(Slices, "_is_done", lambda *args: falls(*args))
    monkeypatch.setattr(Matcher, "known_mask", lambda _: None)
    monkeypatch.setattr(Lookahead, "pays", True)
    asked = [Asked(mix, wish) for wish in wishes]
    core.add(*(one.request for one in asked))
    steps, busy = [], True
    while busy:
        busy = core.step()
        steps.append(runner.notes)
        runner.notes = []
    for one, wanted in zip(asked, expected, strict=True):
        one.answer().check(wanted)
    late = [notes for notes in steps if "late begins" in notes]
    order = ["late begins", "launch", "ids", "late ids"]
    assert order in late
    assert all(notes == [note for note in order if note in notes] for notes in late)


def test_who_has_left_the_flight_gets_nothing() -> None:
    rows = [SimpleNamespace(state=State.RUNNING, flight=i) for i in range(4)]
    rows[1].state = State.WAITING
    given: list[Any] = []
    runner: Any = SimpleNamespace(sample_kept=lambda rows, logits: given.append((rows, logits)))
    late = LateRows(runner, lambda request, error: None)
    for i, row in enumerate(rows):
        late.add(row, torch.tensor([i]))  # type: ignore[arg-type]
    late.begin()
    assert given == [([rows[0], rows[2], rows[3]], [torch.tensor([i]) for i in (0, 2, 3)])]
    rows[2].flight += 1  # retracted meanwhile
    begun = late.take()
    assert begun is not None
    assert begun.places == [0, 2]
    assert late.take() is None
    late.begin()
    assert late.take() is None
    assert len(given) == 1


def test_what_cannot_begin_fails_its_rows() -> None:
    def fails(*args: object) -> None:
        raise MemoryError("full")

    failed: list[Any] = []
    row: Any = SimpleNamespace(state=State.RUNNING, flight=0)
    late = LateRows(
        SimpleNamespace(sample_kept=fails),  # type: ignore[arg-type]
        lambda request, error: failed.append((request, str(error))),
    )
    late.add(row, torch.zeros(1, 3))
    late.begin()
    assert failed == [(row, "full")]
    assert late.take() is None
