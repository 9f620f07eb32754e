"""Tree of thought on the game of 24: which proposals are followed depends on what the model says.

At each step the model proposes, behind each of the best beginnings, what could be done next, and
values every proposal three times; the five best are gone on with. In virtual time it says what it
said in a search that was recorded, or what the rules of the game give.
"""

from __future__ import annotations

import json
import random
from itertools import combinations
from pathlib import Path
from typing import Any

import sgc

STEPS = 3  # the fourth of a recorded search only writes the answer down
KEPT = 5
VALUES = 3  # opinions about each proposal
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
Input: """
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
"""
_ASK = "\nPossible next steps:\n"
_SAYINGS = ("sure", "likely", "impossible")


@sgc.function
def game24(s: Any, numbers: str) -> Any:
    """The numbers that are left behind the best beginnings."""
    best = [numbers]
    for _ in range(STEPS):
        left = []
        proposals = s.fork_each(best)
        for p in proposals:
            p += _PROPOSE + p.item + _ASK
            p += sgc.gen("steps", max_tokens=160, temperature=HEAT)
        for p in proposals:
            for line in p["steps"].splitlines():
                if "(left: " in line:
                    left.append(line.split("(left: ")[1].split(")")[0])
        ranked = []
        valued = s.fork_each(left)
        for v in valued:
            v += _VALUE + v.item + "\n"
            opinions = v.fork(VALUES)
            for o in opinions:
                o += sgc.gen("opinion", max_tokens=48, temperature=HEAT)
            text = " ".join(o["opinion"] for o in opinions)
            points = 20 * text.count("sure") + text.count("likely")
            ranked.append(f"{points:03d}|{v.item}")
        best = [entry.split("|")[1] for entry in sorted(ranked, reverse=True)[:KEPT]]
    return best


def game24_rows(folder: Path | None, number: int) -> list[dict[str, Any]]:
    """Games of the recorded search, or of our own."""
    if folder is not None:
        return [{"numbers": game["steps"][0]["x"]} for game in _log(folder)[:number]]
    return [{"numbers": f"{1 + i % 5} {3 + i % 7} 6 {8 + i % 3}"} for i in range(number)]


class Game24Reply:
    """What the model says, by the end of a prompt."""

    def __init__(self, folder: Path | None) -> None:
        self._steps: dict[str, list[str]] = {}
        for game in _log(folder) if folder is not None else ():
            for step in game["steps"][:STEPS]:
                self._note(step)

    def __call__(self, prompt: str, rng: random.Random) -> str:
        if prompt.endswith(_ASK):
            left = prompt.removesuffix(_ASK).rpartition("Input: ")[2]
            return "\n".join(self._steps.get(left) or _next(left))
        left = prompt.strip().rpartition("\n")[2]
        steps = _next(left)
        lines = [line.partition(" (")[0] for line in rng.sample(steps, min(2, len(steps)))]
        return "\n".join([*lines, rng.choice(_SAYINGS)])

    def _note(self, step: dict[str, Any]) -> None:
        for begin in step["ys"]:
            left = _left(begin) or step["x"]
            lines = [new.removeprefix(begin).strip() for new in step["new_ys"]]
            own = [a for a, new in zip(lines, step["new_ys"], strict=True) if new.startswith(begin)]
            if all("(left: " in line for line in own):
                self._steps.setdefault(left, own)


def _log(folder: Path) -> list[Any]:
    path = folder / "tree_of_thought" / "log_game24_propose1_value3_greedy5.json"
    found: list[Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _left(text: str) -> str:
    """The numbers left behind the last line of a beginning."""
    return text.rpartition("left: ")[2].partition(")")[0]


def _next(left: str) -> list[str]:
    numbers = [int(n) for n in left.split() if n.isdigit()] or [1, 2]
    found = []
    for i, j in combinations(range(len(numbers)), 2):
        rest = [n for k, n in enumerate(numbers) if k not in (i, j)]
        a, b = numbers[i], numbers[j]
        for sign, n in (("+", a + b), ("-", abs(a - b))):
            text = " ".join(map(str, sorted([*rest, n])))
            found.append(f"{max(a, b)} {sign} {min(a, b)} = {n} (left: {text})")
    return found
