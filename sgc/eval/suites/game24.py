"""Tree of thought on the game of 24: a recorded search, gone through again.

At each step the model proposes what could be done behind each of the beginnings that the recorded
search kept, and values each of the recorded proposals three times. What it says is thrown away: the
recorded answers decide which branches there are and which are gone on with, so every engine makes
the same calls.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sgc
from sgc.eval.data import Record, find_files, make_rows, place, read_json_file, sample_rows
from sgc.eval.suite import LoadOptions, Row, Suite
from sgc_ir.errors import EvalDataError

VALUES = 3  # opinions about each proposal
PROPOSE = """Use numbers and basic operations (+ - * /). List possible next steps.
Input: 3 5 6 12
Possible next steps:
3 + 5 = 8 (left: 6 8 12)
12 / 3 = 4 (left: 4 5 6)
6 - 5 = 1 (left: 1 3 12)
12 - 6 = 6 (left: 3 5 6)
3 * 6 = 18 (left: 5 12 18)
5 - 3 = 2 (left: 2 6 12)
12 + 5 = 17 (left: 3 6 17)
6 / 3 = 2 (left: 2 5 12)
"""
VALUE = """Say whether the numbers can reach 24: sure, likely or impossible.
9 15
9 + 15 = 24
sure
7 13
7 + 13 = 20
13 - 7 = 6
7 * 13 = 91
impossible
3 5 9
3 * 5 + 9 = 24
sure
5 6 9
5 + 6 + 9 = 20
(9 - 5) * 6 = 24
sure
10 10 11
10 + 10 + 11 = 31
11 * 10 - 10 = 100
impossible
5 7 9
5 + 7 + 9 = 21
(9 - 5) * 7 = 28
I cannot reach 24 now, but the numbers are within a reasonable range
likely
"""
ANSWER = """Use numbers and basic operations (+ - * /) to reach 24, each number once.
Input: 3 5 6 12
Steps:
12 / 3 = 4 (left: 4 5 6)
5 * 4 = 20 (left: 6 20)
20 + 6 = 26 (left: 26)
Answer: there is none from here
Input: 4 4 6 8
Steps:
4 + 8 = 12 (left: 4 6 12)
6 - 4 = 2 (left: 2 12)
2 * 12 = 24 (left: 24)
Answer: (6 - 4) * (4 + 8) = 24
"""
JUDGE = """Say whether the answer uses each number once and reaches 24: sure or impossible.
Input: 4 4 6 8
Answer: (4 + 8) * (6 - 4) = 24
Judge: sure
Input: 2 9 10 12
Answer: 2 * 12 * (10 - 9) = 24
Judge: sure
Input: 4 9 10 13
Answer: (13 - 4) * (10 - 9) = 24
Judge: impossible
"""


@sgc.function
def game24(s: Any, search: list[dict[str, list[str]]]) -> Any:
    """How many proposals were valued."""
    valued = 0
    for step in search:
        proposing = s.fork_each(step["asked"])
        for p in proposing:
            p += p.item + sgc.gen("steps", max_tokens=256, temperature=0.7)
        valuing = s.fork_each(step["proposed"])
        for v in valuing:
            v += v.item + sgc.gen("opinion", n=VALUES, max_tokens=64, temperature=0.7)
        valued += len(step["proposed"])
    return valued


def load(folder: Path, options: LoadOptions) -> list[Row]:
    """A row for each recorded puzzle."""
    (path, *_) = find_files(folder, "*game24*.json")
    games = read_json_file(path)
    if not isinstance(games, list):
        raise EvalDataError(f"{path}: not a list of recorded searches")
    if games and not any(isinstance(game, dict) and "steps" in game for game in games):
        raise EvalDataError(f"{path}: no search has the field 'steps'")
    records = [Record(f"{place(path, 1)}: search {i}", g) for i, g in enumerate(games, 1)]
    return sample_rows(make_rows(records, _row), options.limit, options.seed)


def _row(index: int, record: Record) -> Row:
    steps = record.data["steps"]
    puzzle = steps[0]["x"]
    search = [_step(puzzle, step["ys"], step["new_ys"]) for step in steps]
    return Row(str(record.data.get("idx", index)), {"search": search})


def _step(puzzle: str, begun: list[str], proposed: list[str]) -> dict[str, list[str]]:
    """The prompts of one step: of each beginning, and of each new text behind one."""
    return {
        "asked": [_ask(puzzle, text) for text in begun],
        "proposed": [_value(puzzle, text) for text in dict.fromkeys(proposed)],
    }


def _ask(puzzle: str, begun: str) -> str:
    left = _left(begun) or puzzle
    if left == "24":
        return f"{ANSWER}Input: {puzzle}\nSteps:\n{begun}"
    return f"{PROPOSE}Input: {left}\nPossible next steps:\n"


def _value(puzzle: str, proposed: str) -> str:
    last = proposed.strip().rpartition("\n")[2]
    if "left: " not in last:
        return f"{JUDGE}Input: {puzzle}\n{last}\nJudge:"
    return f"{VALUE}{_left(proposed)}\n"


def _left(text: str) -> str:
    """The numbers that are left behind the last line."""
    return text.strip().rpartition("\n")[2].rpartition("left: ")[2].partition(")")[0]


SUITE = Suite(
    name="game24",
    title="Tree of thought (game of 24)",
    program="game24",
    folder="tree_of_thought",
    load=load,
    score=None,
    metric="",
    files=("tree_of_thought/*game24*.json",),
    defaults={"parallel": 64},
    notes="No accuracy: the recorded search (one proposal a beginning, three opinions a proposal, "
    "the five best kept) decides every branch, the model's own words are thrown away. Equal "
    "proposals of a step are valued once, as in the recorded search.",
)
