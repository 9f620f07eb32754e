"""The selects of a suite's program: what was asked, and the scores that sgc gave."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sgc.cli.records import record_of
from sgc.cli.runnables import load_runnable
from sgc.eval.registry import program_of
from sgc.eval.suite import Row, Suite
from sgc.testing import RecordingBackend
from sgc_runtime.backends.record_file import results_of
from sgc_runtime.executor.backend import Backend


@dataclass(frozen=True, slots=True)
class Choice:
    """One row's select.

    Attributes:
        row: of the suite.
        prompt, choices: as the backend got them.
        scores: mean log-probability of each choice's tokens, in nats.
        picked: what was selected.
        value: the suite's score of the row, 0 or 1.
    """

    row: Row
    prompt: str
    choices: tuple[str, ...]
    scores: tuple[float, ...]
    picked: str
    value: float


def run_suite(suite: Suite, rows: Sequence[Row], backend: Backend) -> list[Choice]:
    """Run a suite whose program makes one select a row; its rows in order.

    Raises the error of the first row that fails.
    """
    assert suite.score is not None, "a select of this suite is right or wrong"
    lines, records = _recorded(suite, rows, backend)
    found = []
    for row, line, record in zip(rows, lines, records, strict=True):
        (result,) = results_of(line)
        score = suite.score(row, record)
        assert score is not None, row.id
        found.append(
            Choice(
                row=row,
                prompt=line["prompt"],
                choices=tuple(line["params"]["choices"]),
                scores=tuple(result.meta["scores"]),
                picked=result.text,
                value=score.value,
            )
        )
    return found


def _recorded(
    suite: Suite, rows: Sequence[Row], backend: Backend
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """For each row its call as `sgc run --record` writes it, and its output record."""
    program = load_runnable(program_of(suite))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "calls.jsonl"
        recorder = RecordingBackend(backend, path)
        arguments = [row.arguments for row in rows]
        states = program.run_batch(arguments, backend=recorder, **suite.defaults)
        for state in states:
            if (error := state.error()) is not None:
                raise error
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    calls = {line["row"]: line for line in lines if line.get("kind") == "select"}
    records = [record_of(i, rows[i].id, state, False) for i, state in enumerate(states)]
    return [calls[index] for index in range(len(rows))], records
