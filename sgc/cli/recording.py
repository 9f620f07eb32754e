"""`--record` and `--replay`: backend calls written to a file, and served from one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sgc.cli.failure import CommandError
from sgc_ir.errors import BackendError
from sgc_runtime.executor.backend import Backend
from sgc_runtime.executor.merges import Merges


def recording(backend: Backend, path: Path, append: bool) -> Backend:
    """`backend`, with every call written to `path`. Raises CommandError."""
    from sgc_runtime.backends.record import RecordingBackend

    try:
        return RecordingBackend(backend, path, append)
    except BackendError as error:
        raise CommandError(str(error), "give another path to --record") from error


def replaying(path: Path, backend: str | None, engine: Mapping[str, Any]) -> Backend:
    """A backend that serves the calls recorded in `path`. Raises CommandError, also when a backend
    or a setting of the engine is given that would have no effect."""
    from sgc_runtime.backends.replay import ReplayBackend

    given = (["--backend"] if backend else []) + [f"--{n.replace('_', '-')}" for n in engine]
    if given:
        raise CommandError(
            f"--replay together with {given[0]}", "drop one: a replay loads no model"
        )
    try:
        return ReplayBackend(path)
    except BackendError as error:
        raise CommandError(str(error), "give a file that --record wrote") from error


def merging(backend: Backend, merges: Merges | None) -> Backend:
    """`backend`, below which equal calls run once where `merges` are wanted."""
    if merges is None:
        return backend
    from sgc_runtime.backends.merging import MergingBackend

    return MergingBackend(backend, merges)
