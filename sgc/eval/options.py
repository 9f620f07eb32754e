"""What an evaluation is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from sgc.cli.backend import BackendSettings
from sgc.eval.suite import LoadOptions, Suite
from sgc.settings import RunSettings

BUILTIN = "builtin"
HUB = "hub"


@dataclass(frozen=True, slots=True)
class EvalOptions:
    """An evaluation of one suite or several.

    Attributes:
        data: the folder of the benchmarks' files, or `builtin`, or `hub`.
        report: the folder that holds everything of the evaluation.
        samples: keep every prompt and every answer.
        strict: stop at a broken row or file, instead of going on without it.
        resume: go on with an evaluation that was broken off.
        engine, settings: flags of `sgc run` that were given, by field name.
    """

    data: str
    report: Path
    limit: int | None = None
    shots: int | None = None
    samples: bool = False
    strict: bool = False
    resume: bool = False
    quiet: bool = False
    backend: str | None = None
    engine: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def seed(self) -> int:
        return int(self.settings.get("seed", 0))

    @property
    def loading(self) -> LoadOptions:
        return LoadOptions(self.limit, self.seed, self.shots)

    def settings_of(self, suite: Suite) -> dict[str, Any]:
        """Settings of the run of a suite; what the user has given goes before its defaults."""
        return {**_only(suite.defaults, RunSettings), **self.settings}

    def engine_of(self, suite: Suite) -> dict[str, Any]:
        """The same for the engine."""
        return {**_only(suite.defaults, BackendSettings), **self.engine}


def _only(values: Mapping[str, Any], settings: type) -> dict[str, Any]:
    names = {f.name for f in fields(settings)}
    return {name: value for name, value in values.items() if name in names}
