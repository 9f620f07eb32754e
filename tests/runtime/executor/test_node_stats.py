"""What nodes cost, against the log of a scripted backend."""

from __future__ import annotations

from collections import Counter

import pytest

import sgc
import sgc.testing
from sgc_ir.params import CallResult, Timing, Usage
from sgc_runtime.executor import node_stats
from sgc_runtime.executor.loop import run_sync
from sgc_runtime.executor.node_stats import NodeTable


@sgc.function
def sides(s: sgc.State, topic: str) -> None:
    s += "Talk of " + topic
    forks = s.fork(3)
    for f in forks:
        f += sgc.gen("view", max_tokens=4)
        f += sgc.select("tone", ["calm", "loud"])
    s += "So: " + "; ".join(f["view"] for f in forks)
    s += sgc.gen("end")


@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
def test_branches_and_rows_are_counted_together(mode: str) -> None:
    backend = sgc.testing.ScriptedBackend(lambda prompt, params: "one two three")
    nodes = NodeTable()
    job = sides.job({"backend": backend, "mode": mode})
    states = [run_sync(job.row(i, {"topic": "tea"}, nodes=nodes)) for i in range(2)]
    found = nodes.to_list()
    assert [(n["node"], n["name"], n["calls"]) for n in sorted(found, key=lambda n: n["node"])] == [
        ("f0[*]/g0", "view", 6),
        ("f0[*]/g1", "tone", 6),
        ("g0", "end", 2),
    ]
    total = sum((state.usage for state in states), Usage())
    for name in ("prompt_tokens", "completion_tokens", "scored_tokens", "cached_tokens"):
        assert sum(n[name] for n in found) == getattr(total, name)
    assert Counter(n["program"] for n in found) == {"sides": 3}
    assert all(str(n["source"]).partition(":")[0].endswith("test_node_stats.py") for n in found)


def test_samples_of_one_call_do_not_add_up_their_seconds() -> None:
    nodes = NodeTable()
    results = [CallResult("a", timing=Timing(1, 2, 3)), CallResult("b", timing=Timing(1, 2, 9))]
    nodes.add("p", "g0", "x", "f.py:1", results)
    nodes.add("p", "g0", "x", "f.py:1", [CallResult("c", timing=Timing(0.5, 0, 0))])
    (node,) = nodes.to_list()
    seconds = [node[f"{part}_seconds"] for part in ("waiting", "prefill", "decode")]
    assert seconds == [1.5, 2, 9]


def test_many_nodes_stay_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_stats, "MAX_NODES", 3)
    nodes = NodeTable()
    for i in range(10):
        nodes.add("p", f"g{i}", "x", None, [CallResult("a", usage=Usage(1, 1))])
    found = nodes.to_list()
    assert [n["calls"] for n in found] == [1, 1, 1, 7]
    assert found[-1]["node"] == node_stats.OTHERS
