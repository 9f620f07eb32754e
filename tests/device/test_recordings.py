"""When a step is recorded, and that what runs covers its plans."""

from __future__ import annotations

import random

import pytest
import torch

from sgc_kernels.attention.rows import TorchRows
from sgc_kernels.attention.spec import AttentionShape
from sgc_kernels.gpu.attention.items import Launch
from sgc_runtime.device.graphs import Body, EagerRecorder, Graphs, Recorded
from sgc_runtime.device.recordings import Launches, Recordings

SHAPE = AttentionShape(32, 8, 16, 0.25, torch.float32)


class Counted(EagerRecorder):
    """Each recording takes 10 bytes."""

    def record(self, body: Body) -> Recorded:
        self.bytes_taken += 10
        return super().record(body)


class Steps:
    """Recordings whose body notes by which grids it ran."""

    def __init__(self, budget: int = 1000) -> None:
        self.fails = False
        self.ran: list[Launches] = []
        self.graphs = Graphs(Counted(), budget)
        attentions = [TorchRows(SHAPE, 512, torch.device("cpu"))]
        self.recordings = Recordings(self.graphs, attentions, self._body)

    def _body(self, size: int, grids: Launches) -> torch.Tensor:
        assert grids[0].rows == size
        if self.fails:
            raise torch.OutOfMemoryError("none left")
        self.ran.append(grids)
        return torch.full((1,), size)

    def run(self, launch: Launch) -> int:
        """How many recordings there are after a step."""
        found = self.recordings.run([launch])
        assert int(found) == launch.rows
        assert self.ran[-1][0].covers(launch)
        return self.graphs.recordings


def launch(rows: int, wide: int = 0, own: int = 5, tokens: int = 16, tile: int = 64) -> Launch:
    return Launch(rows=rows, wide=wide, few=0, own=own, tile=tile, tokens=tokens)


def test_a_size_is_recorded_at_its_second_use() -> None:
    steps = Steps()
    assert [steps.run(launch(32)) for _ in range(3)] == [0, 1, 1]
    assert [steps.run(launch(64)) for _ in range(3)] == [1, 2, 2]
    assert [steps.run(launch(64, tokens=64)) for _ in range(3)] == [2, 3, 3]


def test_a_larger_recording_serves_a_size_that_is_new() -> None:
    steps = Steps()
    for _ in range(2):
        steps.run(launch(160))
    sizes = []
    for _ in range(12):
        sizes.append(steps.recordings.size(100, [launch(100)]))
        steps.run(launch(sizes[-1]))
    assert sizes == [160] * 8 + [112] * 4
    assert steps.graphs.recordings == 2
    assert steps.recordings.size(100, [launch(100, tokens=64)]) == 112  # another form
    assert steps.recordings.size(100, [launch(100, own=900)]) == 112  # beyond its grids
    assert steps.recordings.size(60, [launch(60)]) == 112
    assert steps.recordings.size(30, [launch(30)]) == 32


def test_one_recording_serves_changing_plans() -> None:
    steps, chance = Steps(), random.Random(1)
    for _ in range(60):
        few, own = chance.randint(0, 60), chance.randint(1, 380)
        plan = Launch(256, chance.randint(0, 80), few, own, chance.choice((64, 128)), 16)
        assert steps.run(plan) <= 1


def test_beyond_its_grids_one_takes_the_place_of_another() -> None:
    steps = Steps()
    assert [steps.run(launch(32, own=5)) for _ in range(2)] == [0, 1]
    assert [steps.run(launch(32, own=900)) for _ in range(3)] == [1, 2, 2]
    assert steps.run(launch(32, own=5)) == 2
    assert len({grids for grids in steps.ran if steps.graphs.find(grids)}) == 1


def test_a_form_that_comes_often_has_a_recording_of_its_own() -> None:
    steps = Steps()
    recordings = [steps.run(launch(256, wide=4, tile=64)) for _ in range(80)]
    assert recordings[1] == recordings[60] == 1
    assert recordings[-1] == 2
    assert steps.ran[-1][0].tile == 64
    assert steps.run(launch(256, wide=80, tile=128)) == 2
    assert steps.ran[-1][0].tile == 128


def test_without_memory_for_more_steps_run_by_kernel() -> None:
    steps = Steps(budget=10)
    for _ in range(3):
        for size in (32, 64, 128):
            steps.run(launch(size))
    assert steps.run(launch(32, own=900)) == 1
    assert [steps.run(launch(32)) for _ in range(90)] == [1] * 90
    assert {grids[0].rows for grids in steps.ran if steps.graphs.find(grids)} == {32}
    assert [steps.recordings.size(20, [launch(20)]) for _ in range(20)] == [32] * 20


def test_without_memory_for_more_nothing_is_noted_of_plans() -> None:
    steps = Steps(budget=0)
    for own in range(900, 950):
        steps.run(launch(32, own=own))
    assert len(steps.ran) == 50
    assert not steps.recordings._ran


def test_a_step_that_fails_is_not_recorded() -> None:
    steps = Steps()
    steps.fails = True
    with pytest.raises(torch.OutOfMemoryError):
        steps.run(launch(32))
    steps.fails = False
    assert [steps.run(launch(32)) for _ in range(3)] == [0, 1, 1]
