"""The files that an evaluation keeps of a suite."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sgc.cli.output import encode_line, writing
from sgc.cli.resuming import journal_path
from sgc.eval.suite import Row
from sgc.files import write_atomically


@dataclass(frozen=True, slots=True)
class SuiteFolder:
    """`REPORT/SUITE/`, with everything of one suite.

    Files: `rows.jsonl` (arguments), `outputs.jsonl` (records of `sgc run`, and its journal while
    rows are missing), `times.jsonl` (when each row ran, and its tokens), `stats.json` (numbers of
    the last run), `scores.jsonl` (a line a row: `id, group, score, detail, error`),
    `samples.jsonl` (texts of each row) and `calls.jsonl` (every model call, in a record of `sgc run
    --record`, which `--replay` takes) where asked for, and `finished.json` (the settings of a run
    whose rows are all good).
    """

    path: Path

    @property
    def rows(self) -> Path:
        return self.path / "rows.jsonl"

    @property
    def outputs(self) -> Path:
        return self.path / "outputs.jsonl"

    @property
    def times(self) -> Path:
        return self.path / "times.jsonl"

    @property
    def stats(self) -> Path:
        return self.path / "stats.json"

    @property
    def scores(self) -> Path:
        return self.path / "scores.jsonl"

    @property
    def samples(self) -> Path:
        return self.path / "samples.jsonl"

    @property
    def calls(self) -> Path:
        return self.path / "calls.jsonl"

    @property
    def finished(self) -> Path:
        return self.path / "finished.json"

    @property
    def has_journal(self) -> bool:
        journal = journal_path(self.outputs)
        return journal is not None and journal.exists()

    def write_rows(self, rows: Iterable[Row]) -> None:
        """The arguments of the rows that can be run."""
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        write_lines(self.rows, (row.arguments for row in rows))


def write_lines(path: Path, values: Iterable[Mapping[str, Any]]) -> None:
    """One JSON object a line, all or nothing. Raises CommandError."""
    text = "".join(encode_line(value) + "\n" for value in values)
    with writing(path):
        write_atomically(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """JSON that people can read, all or nothing. Raises CommandError."""
    with writing(path):
        write_atomically(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file that `sgc` has written; half a line at its end is left out."""
    if path.exists():
        with open(path, encoding="utf-8") as file:
            for line in file:
                if line.endswith("\n"):
                    yield json.loads(line)


def read_object(path: Path) -> dict[str, Any]:
    """The object of a file that `sgc` has written, empty where there is none."""
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found
