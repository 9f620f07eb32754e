"""The compiler's benchmark: which arms run, over which rows, and what is made of their times."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest

from benchmarks.common.compiler_arms import ARMS, Arm, Figures
from benchmarks.common.compiler_gain import GOAL_LEAST, GOAL_MEAN, causes, middle, speedup, summary
from benchmarks.common.compiler_suite import SUITE, as_in_the_file, suite_job
from benchmarks.common.data import Data
from benchmarks.compiler import PROGRAMS, SETTINGS, distinct
from sgc_ir.passes.manager import PASSES, defaults

SMALL = 2  # the limit of every program


def figures(seconds: float, computed: int = 0, host: float | None = None) -> Figures:
    counters = {"prompt_tokens": computed, "cached_tokens": 0, "recomputed_tokens": 0}
    return Figures(seconds, [seconds], [seconds], 0.0, counters, host)


def test_each_pass_is_left_out_in_turn_and_each_opt_in_is_asked_for() -> None:
    for name in defaults():
        assert set(ARMS[f"without {name}"].passes or ()) == {*defaults()} - {name}
    for name in {*PASSES} - {*defaults()}:
        assert set(ARMS[f"with {name}"].passes or ()) == {*defaults(), name}
    assert ARMS["with merge"].merge
    assert (ARMS["without plan"].plan, ARMS["without hints"].hints) == (False, False)


def test_arms_that_do_the_same_run_once() -> None:
    arms = {"a": Arm(()), "interpreted": Arm(None), "compiled": Arm(("fold",)), "b": Arm(())}
    arms |= {"c": Arm(("fold",), plan=False), "d": Arm(("texts",))}

    def identity(arm: Arm) -> Any:  # nothing for a pass to do but for `fold`
        return arm.passes is None, "fold" in (arm.passes or ()), arm.plan

    kept, same = distinct(arms, identity)
    assert list(kept) == ["a", "interpreted", "compiled", "c"]
    assert same == {"b": "a", "d": "a"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_in_file_order_are_the_shuffled_ones(name: str) -> None:
    assert set(SUITE) == set(PROGRAMS)
    rows = suite_job(name, Data(None), None, SMALL).job.rows
    ordered = as_in_the_file(rows)
    assert sorted(map(repr, ordered)) == sorted(map(repr, rows))
    assert len({id(row) for row in ordered}) == len(rows)


def test_in_the_file_the_questions_of_a_subject_stand_together() -> None:
    rows = suite_job("mmlu", Data(None), None, 3).job.rows
    heads = [row["examples"] for row in as_in_the_file(rows)]
    changes = sum(a != b for a, b in pairwise(heads))
    assert (
        changes
        == len(set(heads)) - 1
        < sum(a["examples"] != b["examples"] for a, b in pairwise(rows))
    )


def test_a_speedup_is_the_median_over_pairs() -> None:
    runs = {
        "interpreted": [figures(3.0), figures(1.0), figures(4.0)],
        "compiled": [figures(1.0), figures(2.0), figures(2.0)],
    }
    found = speedup(runs)
    assert (found["speedup"], found["speedups"], found["met"]) == (2.0, [3.0, 0.5, 2.0], True)
    assert middle(runs["interpreted"]).seconds == 3.0


def test_causes_multiply_to_the_speedup() -> None:
    times = {
        "interpreted": (10.0, 900, 0.1),
        "interpreted without hints": (11.0, 1000, 0.1),
        "graph alone": (10.5, 1000, 0.2),
        "and passes": (10.0, 950, 0.2),
        "and plan": (8.0, 700, 0.3),
        "compiled": (6.0, 600, 0.3),
    }
    found = causes({name: figures(*given).to_dict() for name, given in times.items()})
    assert list(found) == ["overhead", "calls seen", "known tokens", "order", "hints"]
    assert found["overhead"]["speedup"] < 1 < found["calls seen"]["speedup"]
    product = math.prod(cause["speedup"] for cause in found.values())
    assert product == pytest.approx(10.0 / 6.0, rel=2e-3)
    assert sum(cause["prompt_tokens_saved"] for cause in found.values()) == 900 - 600
    assert causes({"interpreted": {}, "compiled": {}}) == {}


def test_the_goal_is_judged_over_the_whole_suite_in_the_first_setting() -> None:
    first, second = list(SETTINGS)[:2]

    def told(by: dict[str, float], setting: str) -> dict[str, Any]:
        parts = {f"{name}, {setting}": {"speedup": value} for name, value in by.items()}
        found: dict[str, Any] = summary(parts, PROGRAMS, tuple(SETTINGS))[setting]
        return found

    good = dict.fromkeys(PROGRAMS, GOAL_MEAN + 0.01)
    assert told(good, first)["met"] is True
    assert "met" not in told(good, second)
    assert told(dict(list(good.items())[1:]), first)["met"] is None
    below = told({**good, "rag": GOAL_LEAST - 0.01, "mmlu": 2.0}, first)
    assert (below["met"], below["below_least"], below["least"]) == (False, ["rag"], "rag")
    assert told(dict.fromkeys(PROGRAMS, GOAL_MEAN - 0.01), first)["met"] is False
