"""A backend that is made when it is first needed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from sgc_ir.errors import BackendError
from sgc_runtime.executor.backend import Backend
from sgc_runtime.executor.cell import Cell


class BackendSource:
    """A backend that is made at the first use, once for all rows of a run."""

    def __init__(self, load: Callable[[], Backend]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._cell: Cell | None = None
        self._error: Exception | None = None
        self._task: asyncio.Task[None] | None = None  # kept alive by this reference
        self.backend: Backend | None = None

    @classmethod
    def none(cls) -> BackendSource:
        """The source of a run without a backend; asking it raises BackendError."""
        return cls(_no_backend)

    @classmethod
    def of(cls, backend: Backend) -> BackendSource:
        """A source of a backend that is there already."""
        source = cls(lambda: backend)
        source.backend = backend
        return source

    def load(self) -> Backend:
        """The backend; may take seconds. Raises what loading raises, also when asked again."""
        with self._lock:
            if self._error is not None:
                raise self._error
            if self.backend is None:
                try:
                    self.backend = self._load()
                except Exception as error:
                    self._error = error
                    raise
                except SystemExit as error:  # it ends the load, not the process
                    self._error = BackendError(f"loading the backend raised SystemExit: {error}")
                    raise self._error from error
            return self.backend

    def get(self) -> Cell:
        """The backend as a cell; loads on another thread. Event-loop thread only."""
        if self.backend is not None:
            return Cell.of(self.backend)
        if self._cell is None:
            self._cell = Cell()
            self._task = asyncio.get_running_loop().create_task(self._fill(self._cell))
        return self._cell

    async def _fill(self, cell: Cell) -> None:
        try:
            cell.set(await asyncio.to_thread(self.load))
        except Exception as error:
            cell.fail(error)


def _no_backend() -> Backend:
    raise BackendError("no backend for a model call; pass backend=, or sgc.set_default_backend(b)")
