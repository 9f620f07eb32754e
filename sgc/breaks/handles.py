"""The handle of a sub-program that a region called, for the statements that Python runs."""

from __future__ import annotations

from typing import Any

from sgc.lang.bridge import Bridge
from sgc.lang.current import current_driver
from sgc.lang.race import GraphHandle
from sgc.lang.source import caller_source
from sgc.trace.subprogram import Callee
from sgc_ir.errors import GenerationError, SgcError
from sgc_ir.graph import Source
from sgc_runtime.executor.cell import Cell
from sgc_runtime.executor.handle import Handle
from sgc_runtime.executor.operations import Reading
from sgc_runtime.executor.state import FinishedState
from sgc_runtime.executor.stream import Stream, unset_reason


class RegionHandle(GraphHandle):
    """A running sub-program; each read waits, and raises the error of what it reads."""

    def __init__(self, handle: Handle, callee: Callee) -> None:
        self.handle = handle
        self.callee = callee
        self.spec = callee.spec

    @property
    def value(self) -> Any:
        """The return value."""
        return _bridge().value(lambda: self.handle.read("result"))

    def __getitem__(self, name: str) -> Any:
        """The last value of a variable. Raises GenerationError when it was never set."""
        return self._read(name, "value")

    def meta(self, name: str) -> Any:
        """Facts about the call that wrote a variable."""
        return self._read(name, "meta")

    def get(self, name: str, default: Any = None) -> Any:
        """The last value of a variable, or `default` when it was never set."""
        return self[name] if name in self else default

    def __contains__(self, name: object) -> bool:
        found: bool = _bridge().value(lambda: self._has(name))
        return found

    def text(self) -> str:
        """The whole text."""
        text: str = _bridge().value(lambda: self.handle.read("text"))
        return text

    def messages(self) -> list[dict[str, Any]]:
        """The chat turns."""
        turns: list[dict[str, Any]] = _bridge().value(lambda: self.handle.read("messages"))
        return turns

    def state(self) -> FinishedState:
        """The sub-program as a finished state. To be called when all of it has ended."""
        return self.handle.state()

    def _read(self, name: str, field: str) -> Any:
        source = caller_source()

        def find() -> Cell:
            pending = self.handle.variable(name, lambda stream: _unset(stream, name, source))
            return pending.value if field == "value" else pending.meta

        return _bridge().value(find)

    def _has(self, name: object) -> Cell:
        """Whether the variable is set at the end; waits for it, since a path may not set it."""
        found = Cell()

        def ended(result: Cell) -> None:
            if result.error is not None:
                found.fail(result.error)
                return
            variables = self.handle.frame.value.variables
            pending = variables.get(name)
            if pending is None:
                found.set(False)
            else:
                pending.value.then(lambda _: found.set(name in variables))

        self.handle.read("result").then(ended)
        return found


def _unset(stream: Stream, name: str, source: Source) -> GenerationError:
    reading = Reading("drained", source, stream.scope.order())
    return stream.failure(unset_reason(name, stream), reading)


def _bridge() -> Bridge:
    bridge: Bridge | None = getattr(current_driver(), "bridge", None)
    if bridge is None:
        raise SgcError("a sub-program's handle outside of its program; return its values")
    return bridge
