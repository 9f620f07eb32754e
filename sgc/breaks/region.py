"""One region of a row: what the tracer takes of its statements, and how it is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sgc.breaks.bound import BoundRegion, RegionCode
from sgc.breaks.exits import Ended, Ending, check_kept
from sgc.breaks.live_trace import LiveDriver, LiveTrace
from sgc.breaks.recording import Recording
from sgc.breaks.scene import Scene
from sgc.breaks.world import World
from sgc.lang.body import Body
from sgc.trace.emit import RETURN
from sgc.trace.env import Env
from sgc.trace.log import Contents, Path
from sgc.trace.region import Region
from sgc.trace.snapshot import reach_of_function
from sgc.trace.symbol import Poison
from sgc_ir.graph import Graph, Program, Ref, Source
from sgc_ir.ops import Op


class TracedRegion(Recording):
    """A region under construction. When tracing is over, containers hold the tracer's objects
    until an end is put into them.

    Attributes:
        ends: flow code -> the state with which the region is left by it (0: at its end).
        how: the operand that says by which code.
        is_empty: of a closed region, whether nothing is left to a run.
    """

    def __init__(
        self, body: Body, trace: LiveTrace, fn: Any, env: Env, place: Source, scene: Scene
    ) -> None:
        trace.begin_region()
        super().__init__(trace, Region(trace, trace.main, place), fn, env)
        self.trace: LiveTrace = trace
        self.ends: dict[int, Ended] = {}
        self.how: Any = 0
        self.is_empty = True
        self.world = World(body, trace, self.region, scene)
        self.world.enter(env, reach_of_function(fn))
        self._first = len(self.region.nodes)
        self.begin(self.world.root(), LiveDriver(trace, body.bridge))

    def restart(self) -> None:
        """Forget all statements."""
        super().restart()
        self.ends, self.how = {}, 0

    def abandon(self) -> None:
        """Leave the row as it was."""
        self.restart()
        self.world.leave()

    def check(self, written: Contents) -> None:
        """Refuse a local that only means something while it is traced."""
        if id(self.env) in written:
            before = written[id(self.env)][1]
            for name, value in self.env.slots.items():
                if before.get(name, before) is not value and type(value) is not Poison:
                    check_kept(value)

    # -- its end

    def close(self, is_read: Callable[[str], bool]) -> None:
        """Join the paths and take down what they leave. Raises Refusal where Python could not go
        on with it."""
        exits = self._exits()
        tokens = []
        for code, paths in exits.items():
            self.trace.control.join(paths, self.scope.frame)
            reads = _is_value if code == RETURN else is_read
            ending = Ending(self.trace, self.env, reads, self.world, self.scope.frame)
            streams = [stream for stream, _ in self.world.streams]
            self.ends[code] = ending.take(streams)
            tokens.append(self.region.token_of(self.region.arms))
        self.how = self._how(list(exits), tokens)
        self.is_empty = len(self.region.nodes) == self._first
        self.region.enter(None)
        attrs: dict[str, Any] = {"value": None, "vars": {}}
        self.region.add(Op.RETURN, attrs, -1, self.region.place)

    def _exits(self) -> dict[int, list[Path]]:
        scope, control = self.scope, self.trace.control
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

    def bound(self, is_general: bool) -> BoundRegion:
        """The closed region in its row; see `RegionCode.is_general`."""
        world, nodes = self.world, self.region.nodes
        program = None if self.is_empty else self._program()
        names = {n.id: n.attrs["name"] for n in nodes if n.op is Op.ARGUMENT}
        tools = dict(self.trace.used)
        code = RegionCode(program, self.how, self.taken, is_general, names, world.variables, tools)
        return BoundRegion(code, self.ends, world.params, dict(world.live), world.streams)

    def _program(self) -> Program:
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
