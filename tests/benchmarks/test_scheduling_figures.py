"""The engine in virtual time against times worked out by hand, and the results it is used for."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean

import pytest

from benchmarks import instances, long_queue
from benchmarks.common.virtual_engine import Ask, Instance, StepCost, VirtualEngine
from sgc_runtime.engine.config import EngineConfig

COST = StepCost(step=1.0, prompt_token=0.1, gen=0.01)


def two_calls(first: int) -> Instance:
    [reply] = yield [Ask([first, 2, 3, 4], 5, 3)]
    yield [Ask([*reply.ids, 9], 5, 1, 0, reply.prefix)]


def test_seconds_are_those_of_the_formula() -> None:
    engine = VirtualEngine(COST, 2, EngineConfig(kv_tokens=100))
    found = engine.run([two_calls(7)])
    # Four prompt tokens, two of decode; then the last token of the reply and the new one.
    first = (1 + 0.4) + 2 * (1 + 0.01)
    assert found.makespan_s == pytest.approx(first + (1 + 0.2), abs=0.02)
    assert (found.steps, found.computed_tokens, found.prompt_tokens) == (4, 6, 12)
    assert found.completion_s == pytest.approx([found.makespan_s], abs=0.02)


def test_no_more_run_at_once_than_allowed() -> None:
    one = VirtualEngine(COST, 1, EngineConfig(kv_tokens=100)).run([two_calls(i) for i in (5, 6)])
    both = VirtualEngine(COST, 2, EngineConfig(kv_tokens=100)).run([two_calls(i) for i in (5, 6)])
    assert one.steps == 8
    assert both.steps == 4
    assert sorted(one.completion_s)[0] < 0.6 * one.makespan_s


def test_a_fork_waits_for_all_its_calls() -> None:
    def forked() -> Instance:
        replies = yield [Ask([1, 2, 3], 9, length) for length in (1, 4, 2)]
        assert [len(r.ids) for r in replies] == [4, 7, 5]

    found = VirtualEngine(COST, 1, EngineConfig(kv_tokens=100)).run([forked()])
    assert found.steps >= 4
    assert len(found.completion_s) == 1


@pytest.mark.parametrize("order", ["lpm", "dfs"])
def test_order_and_claims_bring_instances_to_an_end_earlier(order: str) -> None:
    arms = [
        instances.virtual_run("chat", True, "two cores", order, arm, 20, seed=1)
        for arm in ("neither", "order", "both")
    ]
    neither, only_order, both = (fmean(a.completion_s) for a in arms)
    assert both < only_order < neither
    assert arms[2].makespan_s < arms[0].makespan_s
    assert arms[2].computed_tokens < 0.7 * arms[0].computed_tokens


def test_steps_beside_a_queue(tmp_path: Path) -> None:
    out = tmp_path / "queue.json"
    long_queue.main(["--steps", "20", "--queues", "60,120", "--output", str(out)])
    parts = json.loads(out.read_text())["parts"]
    assert set(parts) == {"lpm", "dfs", "fcfs"}
    for found in parts.values():
        assert found["120"]["begun_a_step"] > 10
        assert found["ratio"] > 0
