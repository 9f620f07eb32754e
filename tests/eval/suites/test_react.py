"""ReAct: what the replay asks and keeps, and an agent that acts in the encyclopedia."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.suites import builtin_rows, run_suite

from sgc.eval.data import BUILTIN
from sgc.eval.registry import find_suite
from sgc.eval.suite import LoadOptions
from sgc_ir.errors import EvalDataError

FOLDER = BUILTIN / "react"
STEP = {"thought": "I look.", "action": "Search[Rome]", "observation": "Rome is old."}


def own_files(folder: Path, *lines: object) -> Path:
    """A folder with these episodes and the small exemplars."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (folder / "hotpotqa_100.jsonl").write_text("\n".join(texts), "utf-8")
    for name in ("prompts_naive.json", "hotpot_dev_simplified.jsonl"):
        (folder / name).write_text((FOLDER / name).read_text("utf-8"), "utf-8")
    return folder


def test_the_replay_asks_at_each_step_and_goes_on_with_the_record() -> None:
    rows = builtin_rows("react", limit=3)
    ran = run_suite("react", rows, lambda prompt, params: " MINE\nObservation 1: made up")
    assert ran.values == [len(row.arguments["steps"]) for row in rows]
    assert len(ran.calls) == sum(ran.values)
    for row in rows:
        prompts = [c["prompt"] for c in ran.calls if row.arguments["question"] in c["prompt"]]
        begun = row.arguments["exemplars"] + row.arguments["question"] + "\n"
        wanted = []
        for i, step in enumerate(row.arguments["steps"], 1):
            wanted.append(begun + f"Thought {i}:")
            begun += f"Thought {i}: {step['thought']}\nAction {i}: {step['action']}\n"
            begun += f"Observation {i}: {step['observation']}\n"
        ends = [prompt[prompt.index(row.arguments["exemplars"]) :] for prompt in prompts]
        assert sorted(ends) == sorted(wanted)
    assert not any("MINE" in call["prompt"] for call in ran.calls)
    assert {c["result"] for c in ran.calls} == {" MINE\n"}
    params = [call["params"] for call in ran.calls]
    assert {(p["max_tokens"], p["temperature"], *p["stop"]) for p in params} == {
        (200, 0.0, "Observation")
    }


def test_shots_are_the_first_solved_examples() -> None:
    suite = find_suite("react")
    for shots, count in ((None, 6), (2, 2), (0, 0)):
        (row,) = suite.load(FOLDER, LoadOptions(limit=1, shots=shots))
        assert row.arguments["exemplars"].count("Question: ") == count


def test_an_agent_that_does_what_was_recorded_sees_what_was_recorded() -> None:
    rows = builtin_rows("react-live")
    recorded = {r.arguments["question"]: r.arguments["steps"] for r in builtin_rows("react")}
    assert len(rows) == len(recorded)

    def reply(prompt: str, params: Any) -> str:
        question = re.findall(r"^Question: .*$", prompt, re.M)[-1]
        kind, number = prompt.rpartition("\n")[2].removesuffix(":").split()
        step = recorded[question][int(number) - 1]
        return f" {step[kind.lower()]}\nObservation"

    ran = run_suite("react-live", rows, reply)
    assert [value["steps"] for value in ran.values] == [len(s) for s in recorded.values()]
    assert [score.value for score in ran.scores()] == [1.0] * len(rows)
    last = {re.findall(r"^Question: .*$", c["prompt"], re.M)[-1]: c["prompt"] for c in ran.calls}
    for question, steps in recorded.items():
        for i, step in enumerate(steps[:-1], 1):
            assert f"\nObservation {i}: {step['observation']}\n" in last[question]


def test_an_agent_that_never_ends_has_no_answer() -> None:
    ran = run_suite("react-live", builtin_rows("react-live", limit=1), lambda *_: " Dance[x]\n")
    assert ran.values == [{"answer": "", "steps": 7}]
    assert ran.scores()[0].value == 0.0
    assert "Observation 6: Invalid action: Dance[x]\n" in ran.calls[-1]["prompt"]


def test_modes_agree() -> None:
    def reply(prompt: str, params: Any) -> str:
        return (" Search[Danube]\n", " Lookup[is]\n", " Finish[it]\n")[len(prompt) % 3]

    for name in ("react", "react-live"):
        rows = builtin_rows(name)
        ran = [run_suite(name, rows, reply, mode) for mode in ("compiled", "interpreted")]
        assert ran[0].values == ran[1].values
        calls = [sorted((c["prompt"], str(c["params"])) for c in r.calls) for r in ran]
        assert calls[0] == calls[1]


def test_questions_without_a_known_answer_are_left_out_of_the_live_part(tmp_path: Path) -> None:
    end = {
        "thought": "Done.",
        "action": "Finish[Rome]",
        "observation": "Episode finished, reward = ",
    }
    good, bad = {**end, "observation": end["observation"] + "1\n"}, {**end, "observation": "0"}
    own_files(
        tmp_path,
        {"Question: Which?": [STEP, good]},
        {"Question: Who?": [STEP, bad]},
        {"Question: Which lake is deeper, Lake Baikal or Lake Victoria?": [STEP]},
    )
    rows = builtin_rows("react-live", folder=tmp_path)
    assert [(row.id, row.expected) for row in rows] == [("0", "Rome"), ("2", "Lake Baikal")]


def test_a_broken_episode_is_named_and_the_others_are_there(tmp_path: Path) -> None:
    own_files(tmp_path, {"Question: a": [STEP]}, "{", {"Question: b": [{**STEP, "action": 1}]}, {})
    for name in ("react", "react-live"):
        problems = [row.problem for row in builtin_rows(name, folder=tmp_path)]
        lines = [int(p.split(":")[1]) for p in problems if p]
        assert lines == [2, 3, 4]
        assert any("action of a step is no text" in p for p in problems)


def test_a_missing_file_stops(tmp_path: Path) -> None:
    own_files(tmp_path, {"Question: a": [STEP]})
    (tmp_path / "prompts_naive.json").write_text("{}", "utf-8")
    with pytest.raises(EvalDataError, match=r"prompts_naive\.json: there is no text"):
        builtin_rows("react", folder=tmp_path)
    (tmp_path / "prompts_naive.json").unlink()
    with pytest.raises(EvalDataError, match=r"prompts_naive\.json"):
        builtin_rows("react", folder=tmp_path)
    own_files(tmp_path, {"Question: a": [STEP]})
    (tmp_path / "hotpot_dev_simplified.jsonl").unlink()
    with pytest.raises(EvalDataError, match=r"hotpot_dev\*\.jsonl"):
        builtin_rows("react-live", folder=tmp_path)
