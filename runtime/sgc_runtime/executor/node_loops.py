"""Starts loops: one frame a pass, all at once unless a pass decides whether there is a next one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sgc_ir.analysis.needs import Size, inner_sizes, most_passes
from sgc_ir.analysis.needs_graph import Needs
from sgc_ir.graph import ROOT_STREAM, Node, Ref
from sgc_runtime.executor.cell import Cell, ListCell, as_cell, gather
from sgc_runtime.executor.control_frame import ControlFrame
from sgc_runtime.executor.control_plan import Lane
from sgc_runtime.executor.dead_calls import life_of
from sgc_runtime.executor.effects import EffectChain
from sgc_runtime.executor.frame import BodyRoot, Frame
from sgc_runtime.executor.frames import make_frame
from sgc_runtime.executor.gate import Branch, Family, Gate
from sgc_runtime.executor.loop_values import LoopValues
from sgc_runtime.executor.operations import ForkPoint
from sgc_runtime.executor.stream import Stream


def loop(frame: Frame, node: Node) -> LoopValues:
    run = _LoopRun(frame, node)
    frame.defer()
    run.begin()
    return run.values


class _LoopRun:
    """A loop from its place in the program until all its passes have been started.

    It takes its place at the gates of all families that it walks or captures at once, and leaves
    each as soon as its passes have begun whatever they do there.
    """

    def __init__(self, frame: Frame, node: Node) -> None:
        self.frame = frame
        self.node = node
        self.values = LoopValues(node)
        self._over = [self._walked(operand) for operand in node.attrs["over"]]
        self._captures = {p: self._outer(ref) for p, ref in node.attrs["captures"].items()}
        entries = node.attrs.get("carried") or {}
        self._carried = {name: self._outer(operand) for name, operand in entries.items()}
        self._limits = [frame.operand(node.attrs["max"])] if "max" in node.attrs else []
        self._passes: list[Frame] = []
        self._sizes: Mapping[str, Size] = {}  # of the body's parameters
        self._root: BodyRoot | None = None
        self._point: ForkPoint | None = None
        walked = [*self._over, *self._captures.values()]
        gates = [x.gate for x in walked if type(x) in (Family, Branch) and x.gate is not None]
        self._gates = list({id(gate): gate for gate in gates}.values())
        self._views: dict[int, Gate] = {}
        self._tickets = [_hold(gate) for gate in self._gates]
        self._chain: EffectChain | None = None
        self._close_chain: Callable[[], None] | None = None
        if frame.chain is not None:
            self._chain, self._close_chain = frame.chain.nest()

    def _walked(self, operand: Any) -> Any:
        found = self.frame.operand(operand)
        return found if type(operand) is Ref else as_cell(found)

    def _outer(self, operand: Any) -> Any:
        """What the operand is in the frame around the loop, metadata included."""
        if type(operand) is Ref:
            return self.frame.values[operand.node]
        found = self.frame.operand(operand)
        return as_cell(found) if type(operand) in (tuple, list, dict) else found

    def begin(self) -> None:
        """Wait for the loop's stream. Where it is a branch at whose gate the loop has its place
        already, that place is the turn."""
        found = self.frame.values[self.node.stream] if self.node.stream != ROOT_STREAM else None
        if type(found) is not Branch or found.gate not in self._gates:
            self.frame.in_stream(self.node, self.prepare, self.give_up)
            return

        def enter(error: BaseException | None) -> None:
            if error is not None:
                self.give_up(error)
            else:
                self.prepare(found.stream.value)

        ticket = self._tickets[self._gates.index(found.gate)]
        ticket.then(lambda _: found.stream.then(lambda cell: found.start(enter, cell.error)))

    def prepare(self, stream: Stream) -> None:
        """The loop's stream is there: keep its state, wait for the lengths."""
        self._stream = stream
        if self.frame.body_root is not None and self.node.stream == ROOT_STREAM:
            self._root = self.frame.body_root
        else:
            self._root = self._keep(stream)
        lengths = [*self._limits, *[_length_of(x) for x in self._over]]
        waits = [*self._tickets, *[x for x in lengths if isinstance(x, Cell)]]
        gather(waits, self._start)

    def _keep(self, stream: Stream) -> BodyRoot | None:
        """What the passes may need of the stream as it is now."""
        plan, node, order = self.frame.plan, self.node, self.frame.order(self.node)
        forks, reads = node.id in plan.forks_root, node.id in plan.reads_root
        if not forks and not reads:
            return None
        if forks:
            self._point = stream.fork_point(node.source, order)
        return BodyRoot(
            self._point,
            dict(stream.variables),
            stream.text(node.source, order) if reads else Cell.of(""),
            stream.messages(node.source, order) if reads else Cell.of([]),
        )

    # -- passes

    def _start(self, error: BaseException | None) -> None:
        if error is not None:
            self.give_up(error)
            return
        try:
            self._columns = [_column(x) for x in self._over]
            lengths = [len(column) for column in self._columns]
            self._count = min([*lengths, *map(_limit, self._limits)])
        except Exception as failure:
            self.give_up(self.frame.fail(self.node, failure))
            return
        self._grow(self._count, begins=True)
        self._views = {id(gate): Gate() for gate in self._gates}
        self._captures = {name: self._view(x) for name, x in self._captures.items()}
        self._go_on()

    def _grow(self, passes: int, begins: bool) -> None:
        """The streams that the loop uses learn of so many passes."""
        run = self.frame.run
        lives = run.lives.get(id(self._body))
        if lives is None or run.needs is None:
            return
        self._expect(run.needs, passes, begins)
        touched = [(self._stream.core.life, lives.root)]
        touched += [(life_of(self._captures.get(n)), found) for n, found in lives.captured.items()]
        for life, (calls, opened) in touched:
            if life is not None and (calls or opened):
                life.more(passes * calls, passes * opened - begins)

    def _expect(self, needs: Needs, passes: int, begins: bool) -> None:
        bounds, need, given = needs.part(self.node)
        self._sizes = inner_sizes(given, self.frame.sizes)
        to_come = self.frame.root.ctx.to_come
        if to_come is None or bounds is None:
            return
        planned = most_passes(bounds, self.frame.sizes) if begins else 0
        times = passes if planned is None else passes - planned
        to_come.add(need.amount(self._sizes), times, -1 if planned is None else 0)

    def _view(self, captured: Any) -> Any:
        """A captured fork or branch as the passes see it: behind the gate of this loop."""
        if type(captured) is Family and captured.gate is not None:
            return Family(captured.branches, self._views[id(captured.gate)], captured.life)
        if type(captured) is Branch:
            return captured._replace(gate=self._views[id(captured.gate)])
        return captured

    def _go_on(self) -> None:
        """Start the passes that are known to run; the loop may have to wait for how one ends."""
        waits = "kind" in self._body.nodes[-1].attrs
        while len(self._passes) < self._count:
            kind = self._pass(len(self._passes))
            if not waits:
                continue
            if isinstance(kind, Cell) and not kind.done:
                kind.then(self._go_on_after)
                return
            if not self._continues(kind):
                return
        self._finish()

    def _go_on_after(self, kind: Cell) -> None:
        if self._continues(kind):
            self._go_on()

    def _continues(self, kind: Any) -> bool:
        """Whether a pass that ended so has a next one; ends the loop if not."""
        if isinstance(kind, Cell) and kind.error is not None:
            self.values.lose(kind.error)
            self._finish()
            return False
        if (kind.value if isinstance(kind, Cell) else kind) != 0:
            self._finish()
            return False
        return True

    @property
    def _body(self) -> Any:
        assert self.node.body is not None, "a loop without a body"
        return self.node.body

    def _pass(self, i: int) -> Any:
        """Start pass `i`; gives how it ends."""
        node, frame = self.node, self.frame
        items = [column[i] for column in self._columns]
        params: dict[str, Any] = dict(zip(node.attrs["item_params"], items, strict=True))
        if node.attrs["index_param"]:
            params[node.attrs["index_param"]] = i
        params.update(self._captures)
        params.update(self._slots)
        body = make_frame(
            frame.run,
            self._body,
            self._stream,
            params,
            (*frame.order(node), i),
            self._chain,
            self._root,
            carried={},
            starts=self._turns(),
        )
        body.sizes = self._sizes
        self._passes.append(body)
        body.start()
        return body.kind

    @property
    def _slots(self) -> Mapping[str, Any]:
        """Carried slots as the last pass so far leaves them."""
        last = self._passes[-1].carried if self._passes else None
        return self._carried if last is None else last

    def _turns(self) -> dict[Lane, Cell]:
        """Streams around the loop that the passes use -> when the next pass may use them."""
        last = self._passes[-1] if self._passes else None
        return last.lane_ends() if isinstance(last, ControlFrame) else {}

    def _finish(self) -> None:
        """All passes that there will be have been begun."""
        passes = self._passes
        if len(passes) < self._count:
            self._grow(len(passes) - self._count, begins=False)
        self.values.give([body.result for body in passes])
        self.values.leave(self._slots, passes[-1].kind if passes else 0)
        if self.frame.run.executable.plan(self._body).holds_gates:
            gather([body.dispatched for body in passes], lambda _: self._leave_gates())
        else:
            self._leave_gates()
        gather([body.dispatched for body in passes], lambda _: self._end())

    def _leave_gates(self) -> None:
        for gate in self._gates:
            self._views[id(gate)].enter([], _release(gate))

    def give_up(self, error: BaseException) -> None:
        """There will be no passes."""
        if self.frame.run.needs is not None:
            self._expect(self.frame.run.needs, 0, begins=True)
        self.values.give_up(error)
        for gate, ticket in zip(self._gates, self._tickets, strict=True):
            ticket.then(_release(gate))
        self._end()

    def _end(self) -> None:
        if self._point is not None:
            self._point.close()
        if self._close_chain is not None:
            self._close_chain()
        self.values.ended.set(None)
        self.frame.undefer()


def _limit(operand: Any) -> int:
    found = operand.value if isinstance(operand, Cell) else operand
    if type(found) is not int:
        raise TypeError(f"max={found!r}; the largest number of passes is a whole number")
    return max(0, found)


def _hold(gate: Gate) -> Cell:
    ticket = Cell()
    gate.hold(lambda _: ticket.set(None))
    return ticket


def _release(gate: Gate) -> Callable[[Any], None]:
    return lambda _: gate.release()


def _length_of(x: Any) -> Any:
    """The cell that tells how often `x` can be walked; plain data tells it at once."""
    if type(x) is Family:
        return x.branches
    return x.items if isinstance(x, ListCell) else x


def _column(x: Any) -> Any:
    """One item a pass; items of a list may still be Cells."""
    if type(x) is Family:
        return range(len(x.branches.value))
    known = _length_of(x)
    return list(known.value if isinstance(known, Cell) else known)
