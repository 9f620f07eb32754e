"""Tree of thought on the game of 24, along a search that was recorded.

At each step the model proposes what could come next behind each of the best beginnings, and values
every proposal three times; the record says which proposals there were and which were kept, so that
every run has the same tree.
"""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import sgc

STEPS = 3  # the fourth of a recorded search only writes the answer down
HEAT = 0.7
_PROPOSE = """Use numbers and basic operations (+ - * /). List possible next steps.
Input: 2 8 8 14
Possible next steps:
2 + 8 = 10 (left: 8 10 14)
8 / 2 = 4 (left: 4 8 14)
14 + 2 = 16 (left: 8 8 16)
2 * 8 = 16 (left: 8 14 16)
8 - 2 = 6 (left: 6 8 14)
14 - 8 = 6 (left: 2 6 8)
14 / 2 = 7 (left: 7 8 8)
14 - 2 = 12 (left: 8 8 12)
Input: {left}
Possible next steps:
"""
_VALUE = """Say whether the given numbers can reach 24: sure, likely or impossible.
10 14
10 + 14 = 24
sure
11 12
11 + 12 = 23
12 - 11 = 1
11 * 12 = 132
impossible
4 4 10
4 + 4 + 10 = 18
4 * 10 - 4 = 36
(10 - 4) * 4 = 24
sure
5 7 8
5 + 7 + 8 = 20
(8 - 5) * 7 = 21
I cannot reach 24 now, but the numbers are within a reasonable range
likely
{left}
"""


@sgc.function
def propose(s: Any, left: str) -> Any:
    """What could be done next with the numbers that are left."""
    s += _PROPOSE.format(left=left)
    s += sgc.gen("steps", max_tokens=96, temperature=HEAT)
    return s["steps"]


@sgc.function
def value(s: Any, left: str) -> Any:
    """Three opinions about some numbers."""
    s += _VALUE.format(left=left)
    forks = s.fork(3)
    for f in forks:
        f += sgc.gen("value", max_tokens=32, temperature=HEAT)
    return [f["value"] for f in forks]


@sgc.function
def game24(s: Any, levels: list[dict[str, list[str]]]) -> Any:
    """The search; a level has the numbers left by each beginning, and by each proposal."""
    found = []
    for level in levels:
        proposals = [propose(left) for left in level["before"]]
        values = [value(left) for left in level["after"]]
        found.append(
            {"proposals": [p.value for p in proposals], "values": [v.value for v in values]}
        )
    return found


def recorded_rows(path: Path, number: int) -> list[dict[str, Any]]:
    """Rows out of the log of a search."""
    games = json.loads(path.read_text(encoding="utf-8"))[:number]
    return [{"levels": [_level(step) for step in game["steps"][:STEPS]]} for game in games]


def built_in_rows(number: int) -> list[dict[str, Any]]:
    """Searches of our own: the first five sums and differences are kept."""
    return [{"levels": _levels([1 + i % 5, 3 + i % 7, 6, 8 + i % 3])} for i in range(number)]


def _level(step: dict[str, Any]) -> dict[str, list[str]]:
    before = [_left(text) or step["x"] for text in step["ys"]]
    return {"before": before, "after": [_left(text) or "24" for text in step["new_ys"]]}


def _left(text: str) -> str:
    """The numbers left behind the last line of a beginning."""
    return text.rpartition("left: ")[2].partition(")")[0]


def _levels(numbers: list[int]) -> list[dict[str, list[str]]]:
    levels, best = [], [numbers]
    for _ in range(STEPS):
        after = [left for one in best for left in _next(one)]
        levels.append({"before": list(map(_text, best)), "after": list(map(_text, after))})
        best = after[:5]
    return levels


def _next(numbers: list[int]) -> list[list[int]]:
    found = []
    for i, j in combinations(range(len(numbers)), 2):
        rest = [n for k, n in enumerate(numbers) if k not in (i, j)]
        a, b = numbers[i], numbers[j]
        found += [sorted([*rest, a + b]), sorted([*rest, abs(a - b)])]
    return found


def _text(numbers: list[int]) -> str:
    return " ".join(map(str, numbers))
