"""Runs suites of `sgc eval` over their small inputs on a scripted model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from sgc.eval.data import BUILTIN
from sgc.eval.registry import find_suite, program_of
from sgc.eval.suite import LoadOptions, Row, Suite
from sgc.testing import ScriptedBackend

Reply = Callable[[str, Any], str]


@dataclass(frozen=True)
class Ran:
    """What a suite's program gave for its rows, and the calls it made."""

    suite: Suite
    rows: list[Row]
    values: list[Any]
    calls: list[dict[str, Any]]

    def scores(self) -> list[Any]:
        """Scores of all rows."""
        assert self.suite.score is not None
        outputs = [{"vars": {}, "value": value} for value in self.values]
        return [self.suite.score(row, out) for row, out in zip(self.rows, outputs)]


def builtin_rows(name: str, limit: int | None = None, folder: Path | None = None) -> list[Row]:
    """Rows of a suite's small inputs, or of `folder`, which holds files of the same form."""
    suite = find_suite(name)
    return suite.load(folder or BUILTIN / suite.folder, LoadOptions(limit=limit))


def run_suite(name: str, rows: Sequence[Row], reply: Reply, mode: str = "compiled") -> Ran:
    """Run rows in a suite's program, with the suite's defaults; none may fail."""
    suite = find_suite(name)
    module = import_module("sgc.eval.suites." + Path(program_of(suite).rpartition(":")[0]).stem)
    settings = {**suite.defaults, "parallel": 4}
    backend = ScriptedBackend(reply)
    states = getattr(module, suite.program).run_batch(
        [row.arguments for row in rows], backend=backend, mode=mode, options=settings
    )
    assert [state.error() for state in states] == [None] * len(rows)
    return Ran(suite, list(rows), [state.value for state in states], backend.calls)


def with_arguments(row: Row, **arguments: Any) -> Row:
    """The row with other arguments."""
    return replace(row, arguments={**row.arguments, **arguments})
