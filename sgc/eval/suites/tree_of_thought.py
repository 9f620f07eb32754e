"""Tree of thought on grade-school maths: plans, solutions, checks, and a majority of the leaves.

`tree-of-thought` branches in two on four levels (plan, solution, check, answer: 2 + 4 + 8 + 16
calls); `tree-of-thought-3` in three on three levels (plan, solution, check: 3 + 9 + 27 calls), and
its solutions vote.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sgc
from sgc.eval.data import Record, find_files, make_rows, read_jsonl, sample_rows
from sgc.eval.suite import LoadOptions, Row, Score, Suite
from sgc.eval.suites.gsm8k import SUITE as GSM8K

PLAN = (
    "Make a plan for the question below: say which method you will use, in at most 80 words. Do "
    "not calculate yet.\nQuestion: "
)
SOLVE = (
    "The plan is fine. Now carry it out step by step, calculate, and end with the answer as a "
    "single number."
)
CHECK = "Now check your own solution: is every step right? Grade it from 1 (wrong) to 5 (right)."
ANSWER = "Has your mind changed? Give the answer again after thinking, as a single number."
MAX_TOKENS = 256
NUMBER = re.compile(r"\d[\d,]*")


def branch(s: Any, request: str, width: int, temperature: float) -> Any:
    """Ask, and give `width` branches with a reply each."""
    s += sgc.user(request)
    forks = s.fork(width)
    for f in forks:
        f += sgc.assistant(sgc.gen("reply", max_tokens=MAX_TOKENS, temperature=temperature))
    return forks


@sgc.function
def tree_of_thought(s: Any, question: str) -> Any:
    """The texts of the 16 leaves."""
    width, temperature = 2, 0.001
    leaves = []
    for plan in branch(s, PLAN + question, width, temperature):
        for solution in branch(plan, SOLVE, width, temperature):
            for check in branch(solution, CHECK, width, temperature):
                for answer in branch(check, ANSWER, width, temperature):
                    leaves.append(answer["reply"])
    return leaves


@sgc.function
def tree_of_thought_3(s: Any, question: str) -> Any:
    """The texts of the 9 solutions; each is also checked three times."""
    width, temperature = 3, 0.3
    solutions = []
    for plan in branch(s, PLAN + question, width, temperature):
        for solution in branch(plan, SOLVE, width, temperature):
            solutions.append(solution["reply"])
            branch(solution, CHECK, width, temperature)
    return solutions


def load(folder: Path, options: LoadOptions) -> list[Row]:
    """A row for each question of the test file."""
    (path,) = find_files(folder, "test.jsonl")
    records = read_jsonl(path, fields=("question", "answer"))
    return sample_rows(make_rows(records, _row), options.limit, options.seed)


def _row(index: int, record: Record) -> Row:
    question, solved = record.data["question"], record.data["answer"]
    answer = last_integer(solved.rpartition("####")[2])
    if answer is None:
        raise ValueError("the answer does not end in #### and a number")
    return Row(str(index), {"question": question}, answer)


def score(row: Row, output: Mapping[str, Any]) -> Score:
    """1 where most leaves end in the right number; leaves without a number have no vote."""
    votes = [vote for text in output["value"] if (vote := last_integer(text)) is not None]
    if not votes:
        return Score(0.0, {"answer": None, "agreement": 0.0})
    winner, count = Counter(votes).most_common(1)[0]  # the first one on ties
    agreement = count / len(output["value"])
    return Score(float(winner == row.expected), {"answer": winner, "agreement": agreement})


def last_integer(text: str) -> int | None:
    """The last whole number of a text; commas between its digits are left out."""
    found = NUMBER.findall(text)
    return int(found[-1].replace(",", "")) if found else None


def _suite(name: str, program: str, notes: str) -> Suite:
    return Suite(
        name=name,
        title="Tree of thought (GSM8K)",
        program=program,
        folder=GSM8K.folder,
        load=load,
        score=score,
        metric="majority of the last whole numbers",
        files=("gsm8k/test.jsonl",),
        defaults={"parallel": 64},
        notes=notes,
        hub=GSM8K.hub,
    )


SUITES = (
    _suite(
        "tree-of-thought",
        "tree_of_thought",
        "Two branches on four levels at temperature 0.001, at which they differ little; the 16 "
        "leaves vote. Requests are in our own words.",
    ),
    _suite(
        "tree-of-thought-3",
        "tree_of_thought_3",
        "Three branches on three levels at temperature 0.3; the 9 solutions vote, their 27 checks "
        "are made and not counted. Requests are in our own words.",
    ),
)
