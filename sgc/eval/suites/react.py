"""ReAct (arXiv 2210.03629): thoughts, actions and observations that answer a question.

`react` replays recorded episodes: at each step the model writes its own thought and action in a
branch that is thrown away, then the recorded step is appended. `react-live` lets the model act: its
actions go to an encyclopedia of the pages that the recorded episodes have seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sgc
from sgc.eval.answers import exact_match, f1
from sgc.eval.data import (
    Record,
    find_files,
    make_rows,
    only_entry,
    read_json_file,
    read_jsonl,
    sample_rows,
)
from sgc.eval.encyclopedia import consult
from sgc.eval.suite import LoadOptions, Row, Score, Suite
from sgc_ir.errors import EvalDataError

EXEMPLARS = "webthink_simple6"
INSTRUCTION = """Answer a question in steps of Thought, Action and Observation. An action is one of
Search[page], which shows the beginning of a page or says which pages are alike,
Lookup[words], which shows the next sentence of that page with these words,
Finish[answer], which gives the answer and ends.
Here are examples.
"""
LIVE_STEPS = 7
STEP_FIELDS = ("thought", "action", "observation")


@sgc.function
def react(s: Any, exemplars: str, question: str, steps: list[dict[str, str]]) -> Any:
    """How many steps were replayed."""
    s += INSTRUCTION + exemplars + question + "\n"
    for i, step in enumerate(steps):
        proposal = s.fork(1)[0]
        proposal += f"Thought {i + 1}:" + sgc.gen("step", max_tokens=200, stop="Observation")
        s += f"Thought {i + 1}: {step['thought']}\nAction {i + 1}: {step['action']}\n"
        s += f"Observation {i + 1}: {step['observation']}\n"
    return len(steps)


@sgc.function
def react_live(s: Any, exemplars: str, question: str, pages: str) -> Any:
    """The answer, and after how many steps it was given; `pages` is the encyclopedia's file."""
    s += INSTRUCTION + exemplars + question + "\n"
    seen = {"page": "", "words": "", "found": 0}
    for i in range(1, LIVE_STEPS + 1):
        s += f"Thought {i}:" + sgc.gen("thought", max_tokens=100, stop="\n") + "\n"
        s += f"Action {i}:" + sgc.gen("action", max_tokens=100, stop="\n") + "\n"
        action = s["action"].strip()
        if action.startswith("Finish["):
            return {"answer": action[7:].removesuffix("]"), "steps": i}
        seen = sgc.call(consult, pages, action, seen)
        s += f"Observation {i}: {seen['observation']}\n"
    return {"answer": "", "steps": LIVE_STEPS}


def load(folder: Path, options: LoadOptions) -> list[Row]:
    """A row for each recorded episode `{question: steps}`."""
    exemplars = _exemplars(folder, options.shots)

    def make(index: int, record: Record) -> Row:
        question, steps = _episode(record)
        arguments = {"exemplars": exemplars, "question": question, "steps": steps}
        return Row(str(index), arguments, group=f"{len(steps)} steps")

    records = read_jsonl(folder / "hotpotqa_100.jsonl")
    return sample_rows(make_rows(records, make), options.limit, options.seed)


def load_live(folder: Path, options: LoadOptions) -> list[Row]:
    """A row for each recorded question of which the right answer is known."""
    exemplars = _exemplars(folder, options.shots)
    pages = folder / "hotpotqa_100.jsonl"
    answers = _answers(folder)

    def make(index: int, record: Record) -> Row:
        question, steps = _episode(record)
        arguments = {"exemplars": exemplars, "question": question, "pages": str(pages.resolve())}
        expected = answers.get(question.removeprefix("Question: "), _rewarded(steps))
        return Row(str(index), arguments, expected)

    rows = make_rows(read_jsonl(pages), make)
    known = [row for row in rows if row.problem or row.expected is not None]
    return sample_rows(known, options.limit, options.seed)


def score(row: Row, output: Mapping[str, Any]) -> Score:
    """Exact match of the normalized answers."""
    answer = output["value"]["answer"]
    detail = {"f1": f1(answer, row.expected), "steps": output["value"]["steps"]}
    return Score(exact_match(answer, row.expected), detail)


def _exemplars(folder: Path, shots: int | None) -> str:
    path = folder / "prompts_naive.json"
    prompts = read_json_file(path)
    if not isinstance(prompts, dict) or not isinstance(prompts.get(EXEMPLARS), str):
        raise EvalDataError(f"{path}: there is no text {EXEMPLARS!r} in it")
    episodes = prompts[EXEMPLARS].strip("\n").split("Question: ")[1:]
    return "".join("Question: " + text.rstrip("\n") + "\n\n" for text in episodes[:shots])


def _episode(record: Record) -> tuple[str, list[dict[str, str]]]:
    question, steps = only_entry(record.data)
    for step in steps:
        for name in STEP_FIELDS:
            if not isinstance(step[name], str):
                raise ValueError(f"{name} of a step is no text")
    return question, [{name: step[name] for name in STEP_FIELDS} for step in steps]


def _answers(folder: Path) -> dict[str, str]:
    (path, *_) = find_files(folder, "hotpot_dev*.jsonl")
    records = read_jsonl(path, fields=("question", "answer"))
    return {r.data["question"]: r.data["answer"] for r in records if not r.problem}


def _rewarded(steps: list[dict[str, str]]) -> str | None:
    """The answer of an episode that was rewarded for it."""
    action, outcome = steps[-1]["action"], steps[-1]["observation"]
    if action.startswith("Finish[") and "reward = 1" in outcome:
        return action.removeprefix("Finish[").removesuffix("]")
    return None


def _suite(name: str, program: str, files: tuple[str, ...], **own: Any) -> Suite:
    read = ("react/hotpotqa_100.jsonl", "react/prompts_naive.json", *files)
    return Suite(
        name=name,
        title="ReAct (HotpotQA)",
        program=program,
        folder="react",
        files=read,
        defaults={"temperature": 0.0, "parallel": 64},
        **own,
    )


SUITES = (
    _suite(
        "react",
        "react",
        (),
        load=load,
        score=None,
        metric="",
        notes="No accuracy: the model's steps are thrown away, the record goes on.",
    ),
    _suite(
        "react-live",
        "react_live",
        ("react/hotpot_dev*.jsonl",),
        load=load_live,
        score=score,
        metric="exact match of normalized answers",
        notes="The encyclopedia holds the pages that the recorded episodes have found, not all of "
        "Wikipedia. Questions count whose answer stands in the HotpotQA file, or whose recorded "
        "episode was rewarded. At most 7 steps.",
    ),
)
