"""Reads a report that `sgc eval` has written, and the scores of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sgc.cli.failure import CommandError
from sgc.eval.folder import SuiteFolder
from sgc_ir.json_text import read_json

_ADVICE = "give the folder of `sgc eval --report`"


@dataclass(frozen=True, slots=True)
class SavedReport:
    """A report on the disk.

    Attributes:
        path: of its `report.json`.
        suites: figures by name of the suite.
        conditions: under which it ran.
    """

    path: Path
    suites: Mapping[str, Mapping[str, Any]]
    conditions: Mapping[str, Any]

    @property
    def folder(self) -> Path:
        return self.path.parent

    def scores(self, suite: str) -> dict[str, float | None] | None:
        """The score of each row by its id (None where it has none), or None without the file of
        them. Raises CommandError, with FILE:LINE, for a file that is broken."""
        path = SuiteFolder(self.folder / suite).scores
        if not path.exists():
            return None
        found: dict[str, float | None] = {}
        text = _text(path)
        lines = text.removesuffix("\n").split("\n") if text else []
        for number, line in enumerate(lines, start=1):
            row, value = _score(f"{path}:{number}", line)
            if row in found:
                raise CommandError(f"{path}:{number}: the row {row!r} stands twice", _ADVICE)
            found[row] = value
        return found


def read_report(place: Path) -> SavedReport:
    """The report in a folder, or of a `report.json`. Raises CommandError for what is none."""
    path = place / "report.json" if place.is_dir() else place
    report = _value(str(path), _text(path))
    if not isinstance(report, dict):
        raise CommandError(f"{path} is no report", _ADVICE)
    suites, conditions = report.get("suites"), report.get("conditions")
    if not isinstance(suites, dict) or not all(isinstance(s, dict) for s in suites.values()):
        raise CommandError(f"{path} has no figures of suites", _ADVICE)
    if not isinstance(conditions, dict):
        raise CommandError(f"{path} has no conditions", _ADVICE)
    return SavedReport(path, suites, conditions)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}", _ADVICE) from error
    except ValueError as error:
        raise CommandError(f"{path}: {error}", _ADVICE) from error


def _value(place: str, text: str) -> Any:
    try:
        return read_json(text)
    except ValueError as error:
        raise CommandError(f"{place}: {error}", _ADVICE) from error


def _score(place: str, line: str) -> tuple[str, float | None]:
    row = _value(place, line)
    if not isinstance(row, dict) or not isinstance(row.get("id"), str) or "score" not in row:
        raise CommandError(f"{place}: there is no id and score", _ADVICE)
    value = row["score"]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (is_number and 0 <= value <= 1):
        raise CommandError(f"{place}: the score is no number from 0 to 1", _ADVICE)
    return row["id"], value
