"""The backend of runs that name none: the one that was set, else the default local model.

The model is fetched and loaded at the first call that needs it, so that a program without model
calls needs none.
"""

from __future__ import annotations

import threading

from sgc_runtime.executor.backend import Backend
from sgc_runtime.executor.backend_source import BackendSource

_lock = threading.Lock()
_default: BackendSource | None = None


def set_default_backend(backend: Backend | None) -> None:
    """The backend of runs that name none; None brings back the default local model."""
    global _default
    with _lock:
        _default = BackendSource.of(backend) if backend is not None else None


def default_backend() -> BackendSource:
    """The backend that was set, else one that loads the default model when it is needed."""
    global _default
    with _lock:
        if _default is None:
            _default = BackendSource(_load_default)
        return _default


def _load_default() -> Backend:
    from sgc_runtime.backends.engine_backend import engine_backend

    return engine_backend()
