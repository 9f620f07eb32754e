"""Which steps are recorded, and within which memory."""

from __future__ import annotations

import logging

import pytest
import torch

from sgc_runtime.device.graphs import Body, EagerRecorder, Graphs, Recorded, padded, sizes


class Counted(EagerRecorder):
    """Each recording takes 10 bytes."""

    def record(self, body: Body) -> Recorded:
        self.bytes_taken += 10
        return super().record(lambda: torch.zeros(1))


def test_sizes_are_padded() -> None:
    assert [padded(n) for n in (1, 3, 5, 33, 129, 256, 257, 500)] == [
        1, 4, 8, 48, 160, 256, 320, 512,
    ]  # fmt: skip
    assert sizes(13, 48) == [16, 24, 32, 48]
    assert sizes(224, 400) == [224, 256, 320, 384]
    assert sizes(33, 40) == []


def test_what_is_dropped_is_not_found() -> None:
    graphs = Graphs(Counted(), 1000)
    for size in (1, 2):
        assert graphs.record((size,), lambda: torch.zeros(1)) is graphs.find((size,))
    for size in (1, 2, 3):
        graphs.drop((size,))
        assert graphs.find((size,)) is None
    assert graphs.record((1,), lambda: torch.zeros(1)) is not None
    assert graphs.recordings == 3


def test_nothing_is_recorded_beyond_the_budget(caplog: pytest.LogCaptureFixture) -> None:
    graphs = Graphs(Counted(), 15)
    with caplog.at_level(logging.WARNING):
        for size in (1, 2, 4):
            graphs.record((size,), lambda: torch.zeros(1))
    assert graphs.recordings == 2
    assert not graphs.has_room
    assert graphs.find((4,)) is None
    assert len(caplog.records) == 1


class Failing(EagerRecorder):
    def record(self, body: object) -> Recorded:
        raise torch.OutOfMemoryError("none left")


def test_where_memory_is_out_nothing_more_is_recorded(caplog: pytest.LogCaptureFixture) -> None:
    graphs = Graphs(Failing(), 1000)
    with caplog.at_level(logging.WARNING):
        for size in (1, 2):
            assert graphs.record((size,), lambda: torch.zeros(1)) is None
    assert graphs.find((1,)) is None
    assert graphs.recordings == 0
    assert len(caplog.records) == 1


class Refusing(Counted):
    """Cannot record a body that does what a capture does not allow."""

    tries = 0

    def record(self, body: Body) -> Recorded:
        self.tries += 1
        body()
        return super().record(body)


def not_allowed() -> torch.Tensor:
    raise RuntimeError("operation not permitted when stream is capturing\nmore of it")


def test_what_cannot_be_recorded_is_tried_once(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Refusing()
    graphs = Graphs(recorder, 1000)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert graphs.record((1,), not_allowed) is None
        graphs.record((2,), lambda: torch.zeros(1))
    assert recorder.tries == 2
    assert graphs.recordings == 1
    assert graphs.find((1,)) is None
    assert graphs.find((2,)) is not None
    (warning,) = caplog.records
    assert "not permitted when stream is capturing)" in warning.getMessage()
    assert "\n" not in warning.getMessage()
