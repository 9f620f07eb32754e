"""One region: statements traced one after the other, as long as the tracer takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from sgc.breaks.exits import Ended, Ending
from sgc.breaks.live_trace import LiveDriver, LiveTrace
from sgc.breaks.world import World
from sgc.lang.body import Body
from sgc.lang.current import driving
from sgc.trace.control import DeadPath
from sgc.trace.emit import BREAK, CONTINUE, DEAD, RETURN
from sgc.trace.env import Env, Frame
from sgc.trace.log import Contents, Path, undo
from sgc.trace.refusal import Refusal
from sgc.trace.region import Region
from sgc.trace.snapshot import reach_of_function
from sgc_ir.errors import CompileError
from sgc_ir.graph import Graph, Program, Ref, Source
from sgc_ir.ops import Op

_HOW = "how the region ended"
Attempt = Callable[[], Any]


class TracedRegion:
    """A region under construction.

    Attributes:
        taken: number of statements that it has.
        ends: flow code -> the state with which the region is left by it (0: at its end).
        how: the operand that says by which code.
    """

    def __init__(self, body: Body, trace: LiveTrace, fn: Any, env: Env, place: Source) -> None:
        self.trace, self.env = trace, env
        trace.streams, trace.families, trace.facts.known = [], [], {}
        trace.frames = [Frame(fn), Frame(None, env)]
        self.region = Region(trace, trace.main, place)
        self.world = World(body, trace, self.region)
        self._stack = ExitStack()
        self.world.enter(env, reach_of_function(fn))
        self._stack.enter_context(driving(LiveDriver(trace)))
        self._stack.enter_context(trace.control.apart())
        self._stack.enter_context(trace.inside(self.region, self.world.root()))
        self._scope = self._stack.enter_context(trace.control.scope(BREAK, CONTINUE, RETURN))
        self._stack.enter_context(trace.control._tail(None))
        self.taken = 0
        self.code: Any = None
        self.ends: dict[int, Ended] = {}
        self.how: Any = 0
        self._first = len(self.region.nodes)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to a run."""
        return len(self.region.nodes) == self._first

    # -- statements

    def attempt(self, statement: Attempt) -> Exception | Refusal | None:
        """Trace a statement; what it refuses or raises is given back, and nothing is left of it."""
        undoing = _Undo(self)
        own: Contents = {}
        log = self.trace.log
        log.frames.append(own)
        failure: Exception | Refusal | None = None
        try:
            self.code = statement()
        except (Refusal, Exception) as error:
            failure = error
        except (DeadPath, SystemExit) as error:
            failure = CompileError(f"every path ends here ({type(error).__name__})")
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
            self._scope.frame.setdefault(key, entry)
        self.taken += 1
        return None

    def restart(self) -> None:
        """Forget all statements."""
        self._start.run()
        undo(self._scope.frame)
        self._scope.frame.clear()
        self.taken, self.code = 0, None
        self.ends, self.how = {}, 0

    def begin(self) -> None:
        """All is set for the first statement."""
        self._start = _Undo(self)

    # -- its end

    def close(self, is_read: Callable[[str], bool]) -> None:
        """Join the paths and take down what they leave. Raises Refusal where Python could not go
        on with it."""
        exits = self._exits()
        tokens = []
        for code, paths in exits.items():
            self.trace.control.join(paths, self._scope.frame)
            written = [v for v, _ in self._scope.frame.values() if id(v) in self.world.before]
            ending = Ending(self.trace, self.env, is_read, self.world.was_there, written)
            if code == RETURN:
                ending = Ending(self.trace, self.env, _is_value, self.world.was_there, written)
            streams = [stream for stream, _ in self.world.streams]
            self.ends[code] = ending.take(streams)
            tokens.append(self.region.token_of(self.region.arms))
        self.how = self._how(list(exits), tokens)
        self.region.enter(None)
        attrs: dict[str, Any] = {"value": None, "vars": {}}
        self.region.add(Op.RETURN, attrs, -1, self.region.place)

    def _exits(self) -> dict[int, list[Path]]:
        scope, control = self._scope, self.trace.control
        exits: dict[int, list[Path]] = {code: list(p) for code, p in scope.waiting.items() if p}
        code = self.code or 0
        exits.setdefault(code, []).append(control.path(scope.depth))
        return exits

    def _how(self, codes: Sequence[int], tokens: Sequence[Any]) -> Any:
        if len(codes) == 1:
            return codes[0]
        pairs = tuple((Ref(at), arm) for at, arm in tokens)
        attrs = {"values": tuple(codes), "tokens": pairs}
        return Ref(self.region.add(Op.MERGE, attrs, -1, self.region.place))

    def leave(self) -> None:
        """Tracing is over; containers hold the tracer's objects until the end is put into them."""
        self._stack.close()
        self.trace.frames = []

    def program(self) -> Program:
        """The region as a program of its own."""
        trace, name = self.trace, self.region.name
        graph = Graph(name, tuple(self.region.params), tuple(self.region.nodes), self.region.place)
        graphs, todo = {name: graph}, [graph]
        while todo:
            for node in todo.pop().walk():
                if node.op is Op.SUB_PROGRAM and node.attrs["callee"] not in graphs:
                    found = graphs[node.attrs["callee"]] = trace.graphs[node.attrs["callee"]]
                    todo.append(found)
        return Program(name, graphs, None, dict(trace.tools), {})


def _is_value(name: str) -> bool:
    """After a return no local is read."""
    return False


class _Undo:
    """What the log does not know of a trace, as it was."""

    def __init__(self, traced: TracedRegion) -> None:
        trace, region = traced.trace, traced.region
        self._traced = traced
        self._mark = region.mark()
        self._known = trace.facts.known
        self._lengths = [(own, len(own)) for own in self._lists(traced)]
        self._counters = trace.effects, trace.partials, trace.size
        self._guards = len(trace.guards)

    @staticmethod
    def _lists(traced: TracedRegion) -> list[list[Any]]:
        trace, region = traced.trace, traced.region
        waiting = list(traced._scope.waiting.values())
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
