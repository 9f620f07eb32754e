"""Tests of a changed order: distances of outputs, a judge, and what becomes of the program."""

from __future__ import annotations

import math
from typing import Any

import pytest

import sgc
from sgc.compile import CompiledProgram, compile_spec
from sgc.reordering import Checks, distance, judged, output_test, settle, softmax
from sgc.testing import ScriptedBackend
from sgc_ir.errors import InputError
from sgc_ir.passes.base import Context
from sgc_ir.passes.manager import defaults
from sgc_ir.passes.reorder import restore

RULES = "Grade strictly from A to D. Reply with a single letter, and leave out any explanation."
ROWS = [{"essay": e} for e in ("one", "two", "three")]


@sgc.function
def judge(s, essay: str):
    s += sgc.user(f"Essay:\n{essay}\n\n{RULES}")
    s += sgc.assistant(sgc.select("grade", ["A", "B"]) + " " + sgc.gen("why", max_tokens=3))


def programs() -> tuple[CompiledProgram, CompiledProgram]:
    found = compile_spec(judge.spec, [*defaults(), "reorder"])
    return CompiledProgram(restore(found.graph)), found


def is_moved(prompt: str) -> bool:
    return prompt.index(RULES) < prompt.index("Essay:")


def backend(moved_scores: Any = (0.0, -1.0), moved_text: str = "same", says: str = "yes") -> Any:
    """Answers otherwise, as told, where the rules stand in front; the judge says `says`."""

    def select(prompt: str, choices: list[str]) -> list[float]:
        if choices == ["yes", "no"]:
            return [0.0, -1.0] if says == "yes" else [-1.0, 0.0]
        return list(moved_scores) if is_moved(prompt) else [0.0, -1.0]

    def reply(prompt: str, params: Any) -> str:
        assert params.temperature == 0
        return moved_text if is_moved(prompt) else "same"

    return ScriptedBackend(reply, select=select)


def test_distance_of_distributions() -> None:
    assert softmax([0.0, math.log(3)]) == pytest.approx([0.25, 0.75])
    assert distance([0.0, 0.0], [5.0, 5.0]) == 0
    assert distance([0.0, math.log(3)], [math.log(3), 0.0]) == pytest.approx(0.5)
    assert distance([0.0, -1000.0], [-1000.0, 0.0]) == pytest.approx(1)


@pytest.mark.parametrize(
    ("scores", "text", "change"),
    [
        ((0.0, -1.0), "same", 0.0),
        ((0.0, -1.0), "other", 0.5),  # every gen, no select
        ((-1.0, 0.0), "same", (math.e - 1) / (math.e + 1) / 2),
    ],
)
def test_the_change_of_outputs(scores: Any, text: str, change: float) -> None:
    test = output_test(*programs(), ROWS, backend(scores, text))
    assert (test.rows, test.selects, test.gens) == (3, 3, 3)
    assert test.change == pytest.approx(change)


def test_rows_that_fail_only_in_the_new_order_count_in_full() -> None:
    def fail(prompt: str) -> Exception | None:
        return RuntimeError("no") if is_moved(prompt) else None

    before, after = programs()
    answers = backend()
    answers = ScriptedBackend(answers.reply, select=answers.select, fail=fail)
    assert output_test(before, after, ROWS, answers).change == 1
    with pytest.raises(InputError, match="no sample row made a call that can be compared"):
        output_test(before, after, [{"essay": 7}], backend())


@pytest.mark.parametrize(("text", "kept"), [("same", True), ("other", False)])
def test_an_order_that_changes_outputs_is_taken_back(text: str, kept: bool) -> None:
    before, after = programs()
    found, said = settle(after, Checks(rows=ROWS), backend(moved_text=text), Context())
    assert (found.graph == before.graph) is not kept
    change = "0.000" if kept else "0.500"
    order = "the new order" if kept else "the order as written"
    assert said == [
        f"the outputs of 3 rows (3 selects, 3 gens) change by {change}, at most 0.1 is allowed: "
        f"{order} is kept"
    ]
    if kept:
        outputs = found.graph.notes["reorder"]["outputs"]
        assert outputs == {"rows": 3, "selects": 3, "gens": 3, "change": 0.0, "bound": 0.1}
        assert restore(found.graph) == before.graph


@pytest.mark.parametrize("says", ["yes", "no"])
def test_a_judge_decides_on_each_move(says: str) -> None:
    before, after = programs()
    answers = backend(says=says)
    assert judged(after.graph.notes["reorder"]["moves"], answers) == [says == "yes"]
    prompt = answers.calls[0]["prompt"]
    assert f"Essay:\n{{essay}}\n\n{RULES}" in prompt
    assert f"{RULES}\n\nEssay:\n{{essay}}" in prompt
    found, said = settle(after, Checks(judge=True, rows=ROWS), backend(says=says), Context())
    assert said[0] == f"the judge model takes {int(says == 'yes')} of 1 moves for harmless"
    if says == "no":
        assert found.graph == before.graph
        assert len(said) == 1  # nothing is left to be tested
    else:
        assert found.graph.notes["reorder"]["judge"] == "harmless"
        assert found.graph.notes["reorder"]["outputs"]["change"] == 0


def test_a_judge_that_fails_does_not_say_yes() -> None:
    _, after = programs()
    broken = ScriptedBackend(lambda p, _: "", fail=lambda prompt: RuntimeError("gone"))
    assert judged(after.graph.notes["reorder"]["moves"], broken) == [False]
