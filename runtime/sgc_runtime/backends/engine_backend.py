"""The local engine as a backend, in this process or in one of its own."""

from __future__ import annotations

import os
from typing import Any

from sgc_runtime.engine.options import EngineOptions
from sgc_runtime.executor.backend import Backend
from sgc_runtime.models import DEFAULT_MODEL


def engine_backend(model: str | os.PathLike[str] = DEFAULT_MODEL, **options: Any) -> Backend:
    """A backend that is not loaded yet, where the option `process` says.

    Args:
        model, options: see `LocalBackend`.

    Raises:
        BackendError: an option that has no meaning.
    """
    if EngineOptions(**options).own_process:
        from sgc_runtime.backends.process import ProcessBackend

        return ProcessBackend(model, **options)
    from sgc_runtime.backends.local import LocalBackend

    return LocalBackend(model, **options)
