"""Graphs and rows for the simulator: real programs over the data folder, or over our own rows."""

from __future__ import annotations

import importlib
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.common.data import Data
from benchmarks.common.game24 import Game24Reply, game24, game24_rows
from benchmarks.common.sgc_engine import Job
from benchmarks.common.simulated_script import Reply, recorded_texts
from benchmarks.hit_rate import make_job
from sgc.cli.programs import load_program
from sgc.program import Program

_OWN = Path(__file__).resolve().parents[2] / "programs" / "data"
_DIMENSIONS = ("clarity", "evidence", "style", "structure", "correctness", "depth")


@dataclass(frozen=True, slots=True)
class SimulatedJob:
    """A program, its rows, and what the model says where that matters, by prompt or by seed."""

    job: Job
    reply: Reply | None = None
    recorded: Mapping[int, str] = field(default_factory=dict)


def simulated_job(part: str, data: Data, folder: Path | None, limit: int | None) -> SimulatedJob:
    """The program and the shuffled rows of one part.

    Args:
        folder: the data folder, or None for rows of our own.
        limit: about so many rows; None: as many as a measurement takes.
    """
    if part in _OF_HIT_RATE:
        return SimulatedJob(make_job(part, data, limit))
    if part == "tree":
        return SimulatedJob(_tree(data, limit))
    if part == "game24":
        rows = game24_rows(folder, _GAMES if limit is None else limit)
        return SimulatedJob(Job(game24, rows), Game24Reply(folder))
    rows = _ROWS[part](folder)[: limit or None]
    random.Random(0).shuffle(rows)
    return SimulatedJob(Job(_program(part), rows))


def recorded_job(program: str, inputs: Path, record: Path) -> SimulatedJob:
    """A run that was recorded: `sgc run PROGRAM.py[:FUNCTION] --inputs ROWS.jsonl --record FILE`.

    Raises CommandError for a program that cannot be loaded.
    """
    return SimulatedJob(Job(load_program(program), _lines(inputs)), None, recorded_texts(record))


_GAMES = 12
_OF_HIT_RATE = ("mmlu", "agents", "rag")


def _tree(data: Data, limit: int | None) -> Job:
    from benchmarks.common.workloads import tree_of_thought

    rows = [{"question": text} for text in data.gsm8k(24 if limit is None else limit)]
    random.Random(0).shuffle(rows)
    return Job(tree_of_thought, rows)


def _program(part: str) -> Program:
    names = {"judge": "essay_judge", "react": "react_replay"}
    found: Program = getattr(importlib.import_module(f"programs.{names[part]}"), names[part])
    return found


def _judge(folder: Path | None) -> list[dict[str, Any]]:
    if folder is None:
        essays = [row["essay"] for row in _lines(_OWN / "essays.jsonl")]
    else:
        essays = list(_lines(folder / "llm_judge" / "articles.jsonl"))
    return [{"essay": essay, "dimensions": list(_DIMENSIONS)} for essay in essays]


def _react(folder: Path | None) -> list[dict[str, Any]]:
    if folder is None:
        return list(_lines(_OWN / "react_replay.jsonl"))
    rows = []
    for line in _lines(folder / "react" / "hotpotqa_100.jsonl"):
        [(question, steps)] = line.items()
        if len(steps) >= 3 and all(_is_step(step) for step in steps[:3]):
            question = question.removeprefix("Question: ")
            rows.append({"question": question, "steps": [_step(s) for s in steps[:3]]})
    return rows


def _is_step(step: Mapping[str, Any]) -> bool:
    return all(isinstance(step.get(name), str) for name in ("thought", "action", "observation"))


def _step(step: Mapping[str, str]) -> dict[str, str]:
    return {name: step[name] for name in ("thought", "action", "observation")}


_ROWS: Mapping[str, Callable[[Path | None], list[dict[str, Any]]]] = {
    "judge": _judge,
    "react": _react,
}
PARTS: Sequence[str] = (*_OF_HIT_RATE, "tree", "game24", *_ROWS)


def read_lines(name: str) -> list[Any]:
    """The rows of an input file of the gallery."""
    return _lines(_OWN / name)


def _lines(path: Path, number: int | None = None) -> list[Any]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in islice(file, number)]
