"""Tests of the recorded runs of suites, their replay in other engines, and the ratios."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.common.peer import PeerMissing, Replay
from benchmarks.common.recording import RecordedCall, Recording
from benchmarks.common.timing import Samples
from benchmarks.peers.adapter import (
    Ids,
    check_work,
    refuse_scores,
    replay_in_waves,
    same_first_ids,
)
from benchmarks.peers.recorded import SuiteRun, read_run
from benchmarks.peers.registry import Makers
from benchmarks.peers.table import best_peer, geometric_mean, overall, ratios

RUN = SuiteRun(
    "a suite",
    2,
    Recording(
        (
            RecordedCall((1, 2, 3), output=(4, 5)),
            RecordedCall((1, 9), choices=((6,), (7, 8))),
            RecordedCall((1, 2, 3, 4, 5, 10), output=(11,), parent=0, shared=5, wave=1),
        )
    ),
)


class Engine:
    """Answers 40, 41, ... and keeps what it was asked."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.asked: list[tuple[str, list[Ids]]] = []

    def generate(self, calls: Sequence[int], prompts: Sequence[Ids]) -> list[Ids]:
        self.asked.append(("gen", list(prompts)))
        return [list(range(40, 40 + self._recording.calls[i].num_new)) for i in calls]

    def score(self, calls: Sequence[int], prompts: Sequence[Ids]) -> list[int]:
        self.asked.append(("score", list(prompts)))
        return [len(self._recording.calls[i].choices) for i in calls]


def test_a_run_comes_back_from_its_file(tmp_path: Path) -> None:
    RUN.write(tmp_path / "run.json")
    assert read_run(tmp_path / "run.json") == RUN


@pytest.mark.parametrize("text", ["", "{}", '{"suite": "a", "rows": 1, "calls": [{}]}', "[1]"])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="holds no recorded run"):
        read_run(path)


def test_later_waves_go_on_from_what_the_engine_made() -> None:
    engine = Engine(RUN.recording)
    replay = replay_in_waves(engine, RUN.recording, parallel=8)
    assert engine.asked == [
        ("gen", [[1, 2, 3]]),
        ("score", [[1, 9]]),
        ("gen", [[1, 2, 3, 40, 41, 10]]),
    ]
    assert replay.outputs == [[40, 41], [], [40]]
    assert replay.scored == 2
    check_work(RUN.recording, replay)


def test_no_more_calls_at_a_time_than_asked() -> None:
    recording = Recording(tuple(RecordedCall((i,), output=(1,)) for i in range(5)))
    engine = Engine(recording)
    replay_in_waves(engine, recording, parallel=2)
    assert [len(prompts) for _, prompts in engine.asked] == [2, 2, 1]


@pytest.mark.parametrize(
    ("outputs", "scored", "message"),
    [
        ([[1], [], [3]], 2, "call 0 made 1 ids instead of 2"),
        ([[1, 2, 3], [], []], 2, "call 0 made 3 ids instead of 2"),
        ([[1, 2], [], [3]], 1, "1 scored choices instead of 2"),
    ],
)
def test_other_work_is_refused(outputs: list[Ids], scored: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_work(RUN.recording, Replay(1.0, outputs, scored))


def test_first_ids_of_calls_without_a_parent_are_compared() -> None:
    ours = Replay(1.0, [[4, 5], [], [11]], 2)
    assert same_first_ids(RUN.recording, Replay(1.0, [[4, 0], [], [0]], 2), ours) == 1.0
    assert same_first_ids(RUN.recording, Replay(1.0, [[0, 5], [], [11]], 2), ours) == 0.0


def test_an_engine_without_scores_says_so() -> None:
    with pytest.raises(PeerMissing, match="no select"):
        refuse_scores(RUN.recording, "it")


def test_ratios_are_those_of_medians_and_the_fastest_peer_is_the_best() -> None:
    samples = {
        "sgc": Samples([2.0, 1.0, 9.0]),
        "slow": Samples([8.0]),
        "fast": Samples([3.0, 1.0, 5.0]),
    }
    found = ratios(samples, "sgc")
    assert found == {"slow": 4.0, "fast": 1.5}
    assert best_peer(found) == "fast"
    assert best_peer({}) is None


def test_geometric_means_leave_out_workloads_without_a_peer() -> None:
    parts: dict[str, dict[str, Any]] = {
        "a": {"ratio": 2.0, "ratios": {"x": 2.0, "y": 4.0}},
        "b": {"ratio": 8.0, "ratios": {"x": 8.0}},
        "c": {"ratio": None, "ratios": {}},
    }
    total = overall(parts)
    assert total["best_peer"] == 4.0
    assert total["workloads"] == 2
    assert total["lowest"] == {"workload": "a", "ratio": 2.0}
    assert total["by_peer"]["y"] == {"workloads": 1, "geometric_mean": 4.0}
    assert overall({"c": parts["c"]}) == {}
    assert math.isclose(geometric_mean([0.5, 2.0]), 1.0)


def test_an_engine_that_cannot_run_here_is_absent(tmp_path: Path) -> None:
    made, missing = Makers(tmp_path / "weights", threads=1).make_all(["transformers", "guidance"])
    assert made == []
    assert missing == {
        name: f"{name} is set up for a GGUF file, not for weights"
        for name in ("transformers", "guidance")
    }
