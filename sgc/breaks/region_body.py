"""The driver of a body that runs in regions, as far as its calls know it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sgc.breaks.live_trace import LiveTrace
from sgc.breaks.report import BreakLog
from sgc.lang.body import Body
from sgc.lang.bridge import Bridge
from sgc.lang.function import ProgramSpec
from sgc.trace.refusal import refuse
from sgc_runtime.executor.cell import Cell
from sgc_runtime.executor.context import RunContext
from sgc_runtime.executor.core import StreamCore
from sgc_runtime.executor.stream import Stream

T = TypeVar("T")


class RegionBody(Body):
    """The body of a program that runs as regions, with Python between them.

    Attributes:
        regions: the body's bridge.
        trace: its tracer.
        unsplit: statements under way whose errors Python itself must see as they come.
        asks_handles: functions under way that ask for errors of their sub-programs.
        takes_errors: functions under way that have handlers.
    """

    def __init__(self, ctx: RunContext, spec: ProgramSpec, stream: Stream, log: BreakLog) -> None:
        super().__init__(ctx, spec, stream)
        self.bridge = self.regions = RegionBridge(ctx, stream.core, log)
        self.log = log
        self.trace = LiveTrace(spec.name)
        self.unsplit = 0
        self.asks_handles = 0
        self.takes_errors = 0


class RegionBridge(Bridge):
    """Counts what Python's statements ask of streams, and refuses it of what is traced.

    Attributes:
        is_tracing: whether a region is being traced, whose streams are the tracer's.
    """

    def __init__(self, ctx: RunContext, core: StreamCore, log: BreakLog) -> None:
        super().__init__(ctx, core)
        self._log = log
        self.is_tracing = False

    def post(self, operation: Callable[[], Any]) -> None:
        self._note()
        super().post(operation)

    def ask(self, operation: Callable[[], T]) -> T:
        self._note()
        return super().ask(operation)

    def value(self, find: Callable[[], Cell]) -> Any:
        self._note()
        return super().value(find)

    def known(self, find: Callable[[], Cell | None]) -> Cell | None:
        found = super().known(find)
        if found is not None:
            self._note()
        return found

    def _note(self) -> None:
        if self.is_tracing:
            raise refuse("a stream is reached by a way that is not followed; Python runs it")
        self._log.count(interpreted=1)

    def of_region(self, find: Callable[[], Cell]) -> Any:
        """`value` for a region."""
        return super().value(find)

    def settle(self, operation: Callable[[], T]) -> T:
        """`ask` for a region."""
        return super().ask(operation)

    def wait(self) -> None:
        """Wait until what was posted has been done."""
        if self._outstanding:
            super().ask(lambda: None)
        else:
            self.go_on()
