"""Result files of `cache_overhead` and `hit_rate`, and the clocks and intervals behind them."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from benchmarks import cache_overhead, hit_rate
from benchmarks.common.bare_engine import make_core, make_request
from benchmarks.common.results import ResultFile
from benchmarks.common.stopwatch import Stopwatch
from benchmarks.common.timing import interleave, mean_interval


class Counter:
    """Something to watch."""

    def outer(self, n: int) -> int:
        return self.inner(n) + self.inner(n)

    def inner(self, n: int) -> int:
        return n


def test_a_stopwatch_counts_the_outermost_call_and_leaves_nothing_behind() -> None:
    before = dict(vars(Counter))
    watch, one = Stopwatch(), Counter()
    watch.class_method(Counter, "outer", "all")
    watch.class_method(Counter, "inner", "all")
    watch.method(one, "inner", "own")
    assert one.outer(2) == 4
    assert watch.calls == {"all": 1, "own": 2}
    assert watch.seconds["all"] >= watch.seconds["own"] > 0
    watch.undo()
    assert dict(vars(Counter)) == before
    assert vars(one) == {}


def test_interval_of_a_mean() -> None:
    # Student's factor for 2 degrees is 4.303; the deviation of 1, 2, 3 is 1.
    found = mean_interval([1.0, 2.0, 3.0])
    assert found["mean"] == 2.0
    assert found["high"] - found["mean"] == pytest.approx(4.303 / 3**0.5)
    wide = mean_interval([float(i % 2) for i in range(31)])
    assert wide["high"] - wide["mean"] == pytest.approx(2.042 * 0.5080 / 31**0.5, rel=2e-3)


def test_rounds_are_interleaved_and_turned() -> None:
    order: list[str] = []

    def work(name: str) -> float:
        order.append(name)
        return 1.0

    samples = interleave({n: partial(work, n) for n in "ab"}, 2)
    assert "".join(order) == "abba"
    assert samples["a"].to_dict()["repetitions"] == 2


def test_a_work_that_is_slow_or_cannot_has_fewer_repetitions() -> None:
    class CannotError(Exception):
        pass

    def cannot() -> float:
        raise CannotError

    works = {"fast": lambda: 1.0, "slow": lambda: 4.0, "late": lambda: 99.0, "not": cannot}
    samples = interleave(works, 5, 10.0, (CannotError,))
    found = {name: sample.to_dict()["repetitions"] for name, sample in samples.items()}
    assert found == {"fast": 5, "slow": 2, "late": 1}


def test_a_result_file_keeps_what_is_done(tmp_path: Path) -> None:
    path = tmp_path / "x" / "r.json"
    file = ResultFile(path, what="test", conditions={"commit": "1"}, limit=2)
    file.add("a", {"n": 1})
    found = json.loads(path.read_text())
    done = found["parts"]["a"]["conditions"].pop("done")
    assert set(done) == {"time", "load_average"}
    assert found == {
        "what": "test",
        "parts": {"a": {"conditions": {"commit": "1", "limit": 2}, "n": 1}},
    }


def test_a_result_file_keeps_older_parts_with_their_own_conditions(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    for commit, parts in (("1", "ab"), ("2", "bc")):
        file = ResultFile(path, what=commit, conditions={"commit": commit})
        for part in parts:
            file.add(part, {"n": part + commit})
    file.note("a", "remark", "seen")
    found = json.loads(path.read_text())
    assert found["what"] == "2"
    by_part = {name: (p["n"], p["conditions"]["commit"]) for name, p in found["parts"].items()}
    assert by_part == {"a": ("a1", "1"), "b": ("b2", "2"), "c": ("c2", "2")}
    assert found["parts"]["a"]["remark"] == "seen"


def test_conditions_in_the_head_of_an_older_file_go_to_its_parts(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    old = {"what": "w", "limit": 3, "conditions": {"commit": "0"}, "parts": {"a": {"n": 1}}}
    path.write_text(json.dumps(old))
    ResultFile(path, what="w", conditions={"commit": "9"})
    assert json.loads(path.read_text()) == {
        "what": "w",
        "parts": {"a": {"conditions": {"limit": 3, "commit": "0"}, "n": 1}},
    }


@pytest.mark.parametrize("content", ["{", "[]", '{"what": "w"}', '{"parts": {"a": 1}}'])
def test_a_file_without_results_is_not_overwritten(tmp_path: Path, content: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"r\.json holds no results .* --output"):
        ResultFile(path, what="w", conditions={})
    assert path.read_text() == content


def test_the_bare_engine_ends_its_requests() -> None:
    core = make_core(kv_tokens=200)
    requests = [make_request([7, 8, i + 9], 3, i) for i in range(4)]
    core.add(*requests)
    while core.step():
        pass
    assert [r.num_tokens for r in requests] == [6] * 4
    assert core.cache.referenced == 0


def test_steps_beside_queues(tmp_path: Path) -> None:
    out = tmp_path / "overhead.json"
    options = ["--limit", "2", "--threads", "1", "--output", str(out)]
    cache_overhead.main([*options, "--parts", "queue"])
    queue = json.loads(out.read_text())["parts"]["queue"]
    assert set(queue["unshared"]) == set(queue["shared"]) == {"100", "200", "400"}
    assert queue["shared"]["400"]["still_waiting"] == 400
    assert queue["shared_ratio"] > 0


@pytest.mark.model
def test_overhead_of_the_cache(tmp_path: Path) -> None:
    out = tmp_path / "overhead.json"
    options = ["--limit", "1", "--threads", "1", "--repetitions", "2", "--output", str(out)]
    cache_overhead.main([*options, "--parts", "unshared"])
    found = json.loads(out.read_text())["parts"]["unshared"]
    assert found["inside_functions"]["cache"]["by_function"]["PrefixCache.store"] > 0
    assert 0 < found["inside_share_of_run_time"] < 1
    assert found["added_wall_share_of_runs"]["n"] == 2
    steps = found["added_wall_share_of_steps"]
    assert steps["low"] <= steps["share"] <= steps["high"]
    assert steps["repetitions"] == 2


@pytest.mark.model
def test_hit_rates(tmp_path: Path) -> None:
    out = tmp_path / "rates.json"
    options = ["--limit", "2", "--threads", "1", "--output", str(out)]
    hit_rate.main([*options, "--parts", "mmlu"])
    found = json.loads(out.read_text())["parts"]["mmlu"]
    assert set(found["orders"]) == {"dfs", "lpm", "fcfs"}
    assert found["kv_tokens"] == 4 * found["longest_request"]
    for order in found["orders"].values():
        assert 0 < order["hit_rate"] <= order["optimal_hit_rate"] < 1
        assert order["calls"] == found["rows"] == 12
