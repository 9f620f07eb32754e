"""The programs and rows over which the compiler is measured."""

from __future__ import annotations

import importlib
import random
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from benchmarks.common.data import Data
from benchmarks.common.sgc_engine import Job
from benchmarks.common.simulated_jobs import SimulatedJob, read_lines, simulated_job

T = TypeVar("T")
# Program by program, what `limit` of `simulated_job` makes a run of a few seconds on two cores.
SUITE: dict[str, tuple[str, int]] = {
    "mmlu": ("few-shot classification: questions of several subjects", 4),
    "tree": ("tree of thought: plans, solutions and checks of maths problems", 3),
    "judge": ("a judge: an opinion on each of six dimensions of an article, a grade", 3),
    "rag": ("answers from retrieved passages, which rows share in part", 8),
    "react": ("ReAct: proposals beside recorded steps", 5),
    "agents": ("calls of a town of agents, behind a few long prompts", 12),
    "chat": ("conversations of three turns", 6),
}
QUICK = 3  # the limit of every program in a quick run
WARM_UP = 2  # rows


def suite_job(name: str, data: Data, folder: Path | None, limit: int | None) -> SimulatedJob:
    """The program `name` with its shuffled rows.

    Args:
        folder: the data folder, or None for rows of our own.
        limit: about so many rows; None: as many as a measurement takes.
    """
    number = SUITE[name][1] if limit is None else limit
    if name == "chat":
        return SimulatedJob(_chats(number))
    return simulated_job(name, data, folder, number)


def as_in_the_file(shuffled: Sequence[T]) -> list[T]:
    """The rows of a `suite_job` in the order of their file."""
    places = list(range(len(shuffled)))
    _shuffle(places)
    found = dict(zip(places, shuffled, strict=True))
    return [found[place] for place in range(len(shuffled))]


def _chats(number: int) -> Job:
    """The talks of the gallery, once each, then with other people: no two are the same."""
    own = read_lines("multi_turn_chat.jsonl")
    rows = [
        {**row, "topic": row["topic"] if turn == 0 else f"{row['topic']}, for beginner {turn}"}
        for turn in range(-(-number // len(own)))
        for row in own
    ][:number]
    _shuffle(rows)
    module = importlib.import_module("programs.multi_turn_chat")
    return Job(module.multi_turn_chat, rows)


def _shuffle(rows: list[T]) -> None:
    """In place, as `simulated_job` does."""
    random.Random(0).shuffle(rows)
