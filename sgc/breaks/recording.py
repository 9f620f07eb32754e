"""Statements traced one after the other into one region, each of which may be taken back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from sgc.lang.current import Driver, driving
from sgc.trace.attempts import TraceAgain
from sgc.trace.context import Trace
from sgc.trace.control import DeadPath
from sgc.trace.emit import BREAK, CONTINUE, DEAD, RETURN
from sgc.trace.env import Env, Frame
from sgc.trace.log import Contents, undo
from sgc.trace.refusal import Refusal
from sgc.trace.region import Region
from sgc.trace.stream import Stream
from sgc_ir.errors import CompileError


class Recording:
    """Traces statements one by one; one that is refused leaves nothing behind.

    Attributes:
        taken: number of statements that were traced.
        code: the flow code with which the last one ended.
    """

    def __init__(self, trace: Trace, region: Region, fn: Any, env: Env) -> None:
        self.trace, self.region, self.env = trace, region, env
        self.taken = 0
        self.code: Any = None
        self._stack = ExitStack()
        trace.frames = [Frame(fn), Frame(None, env)]

    def begin(self, stream: Stream, driver: Driver) -> None:
        """All is set for the first statement."""
        trace, stack = self.trace, self._stack
        stack.enter_context(driving(driver))
        stack.enter_context(trace.control.apart())
        stack.enter_context(trace.inside(self.region, stream))
        self.scope = stack.enter_context(trace.control.scope(BREAK, CONTINUE, RETURN))
        stack.enter_context(trace.control._tail(None))
        self._start = _Undo(self)

    def attempt(self, statement: Callable[[], Any]) -> Exception | Refusal | None:
        """Trace a statement; what it refuses or raises is given back, and nothing is left of it."""
        undoing = _Undo(self)
        own: Contents = {}
        log = self.trace.log
        log.frames.append(own)
        failure: Exception | Refusal | None = None
        try:
            self.code = statement()
            self.check(own)
        except (Refusal, Exception) as error:
            failure = error
        except (DeadPath, SystemExit, TraceAgain) as error:
            failure = CompileError(f"it cannot be traced here ({type(error).__name__})")
        finally:
            log.frames.pop()
        if failure is None and self.code == DEAD:
            failure = CompileError("every path ends here")
        if failure is not None:
            self.code = None
            undo(own)
            undoing.run()
            return failure
        for key, entry in own.items():
            self.scope.frame.setdefault(key, entry)
        self.taken += 1
        return None

    def check(self, written: Contents) -> None:
        """Look at what a statement has written, before it is taken. May raise Refusal."""

    def restart(self) -> None:
        """Forget all statements."""
        self._start.run()
        undo(self.scope.frame)
        self.scope.frame.clear()
        self.taken, self.code = 0, None

    def leave(self) -> None:
        """Tracing is over."""
        self._stack.close()
        self.trace.frames = []


class _Undo:
    """What the log does not know of a trace, as it was."""

    def __init__(self, traced: Recording) -> None:
        trace, region = traced.trace, traced.region
        self._traced = traced
        self._mark = region.mark()
        self._known = trace.facts.known
        self._lengths = [(own, len(own)) for own in self._lists(traced)]
        self._counters = trace.effects, trace.partials, trace.size
        self._guards = len(trace.guards)

    @staticmethod
    def _lists(traced: Recording) -> list[list[Any]]:
        trace, region = traced.trace, traced.region
        waiting = list(traced.scope.waiting.values())
        return [
            trace.streams, trace.families, region.iterators, region.foreign_reads,
            trace.left_iterators, trace.unrolled, *waiting,
        ]  # fmt: skip

    def run(self) -> None:
        trace = self._traced.trace
        self._traced.region.undo(self._mark)
        trace.facts.known = self._known
        for own, length in self._lengths:
            del own[length:]
        trace.effects, trace.partials, trace.size = self._counters
        del trace.guards[self._guards :]
