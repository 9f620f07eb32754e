"""Runs a graph with branches: a node is started when it is known that it runs, and in its turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from heapq import heappop, heappush
from typing import Any

from sgc_ir.graph import Node, Ref, Token
from sgc_ir.ops import Op
from sgc_runtime.executor.cell import Cell, as_cell
from sgc_runtime.executor.control_plan import ControlPlan, Lane
from sgc_runtime.executor.dead_calls import note_dead
from sgc_runtime.executor.failures import Outcome, decide
from sgc_runtime.executor.frame import Frame
from sgc_runtime.executor.gate import Branch, Family, Gate
from sgc_runtime.executor.handle import Handle
from sgc_runtime.executor.late_values import LateValues, NotReached, failed_variable
from sgc_runtime.executor.loop_values import LoopValues
from sgc_runtime.executor.ordered_chain import OrderedChain
from sgc_runtime.executor.pending import Pending, fill_pending
from sgc_runtime.executor.stream import Stream


class ControlFrame(Frame):
    """A graph whose nodes stand under tokens; see `ControlPlan` for what waits for what."""

    __slots__ = (
        "_arrived",
        "_control",
        "_fates",
        "_heap",
        "_late",
        "_left",
        "_open_tokens",
        "_running",
        "_starts",
        "_tokens",
        "_tools",
        "_waits",
        "_watchers",
        "returned",
    )

    def __init__(self, *args: Any, starts: Mapping[Lane, Cell] | None = None) -> None:
        super().__init__(*args)
        control = self.plan.control
        assert control is not None, "a graph without branches in a ControlFrame"
        nodes = self.plan.graph.nodes
        self._control: ControlPlan = control
        self._late = LateValues(len(nodes))
        self.values = self._late
        self.result = Cell()
        self.returned = Cell()
        if self.carried is not None:
            self.kind = Cell()
            self.carried = {name: Pending(name) for name in nodes[-1].attrs["vars"]}
        self._fates: list[Any] = [None] * len(nodes)  # None: runs; _DEAD; or the error of its token
        self._waits = list(control.waits)
        self._left = len(nodes)
        self._heap: list[int] = []
        self._running = False
        self._tokens: dict[Token, Any] = {}  # what is known: _ARRIVED, _DEAD or an error
        self._arrived: dict[int, int] = {}  # Merge -> position of the token that arrived
        self._open_tokens: dict[int, int] = {}  # Merge -> how many of its tokens are not known
        self._watchers: dict[int, list[Callable[[], None]]] = {}
        self._starts = starts or {}
        self._tools: OrderedChain | None = None
        if self.chain is not None:
            self._tools = OrderedChain(self.chain, len(control.guards))
            self.chain = self._tools

    def start(self) -> None:
        """Start every node that can be, the others when they can."""
        for lane, cell in self._starts.items():
            if not cell.done:
                self._waits[self._control.first[lane]] += 1
        self._heap = [at for at, count in enumerate(self._waits) if count == 0]
        for lane, cell in self._starts.items():
            if not cell.done:
                cell.then(partial(self._release_first, lane))
        self._run()

    def lane_ends(self) -> dict[Lane, Cell]:
        """Lanes that lead on into the next pass of a loop -> done when all their nodes passed."""
        return {lane: self._lane_end(lane) for lane in self._control.shared}

    def _lane_end(self, lane: Lane) -> Cell:
        end = Cell()
        self.when_passed([self._control.last[lane]], lambda: end.set(None))
        return end

    def when_passed(self, nodes: Iterable[int], then: Callable[[], None]) -> None:
        """Call `then` when `nodes` have been started or are dead."""
        waiting = [at for at in nodes if self._waits[at] >= 0]
        if not waiting:
            then()
            return
        missing = len(waiting)

        def count() -> None:
            nonlocal missing
            missing -= 1
            if missing == 0:
                then()

        for at in waiting:
            self._watchers.setdefault(at, []).append(count)

    # -- the loop

    def _release_first(self, lane: Lane, _: Cell) -> None:
        self._release([self._control.first[lane]])

    def _release(self, nodes: Iterable[int]) -> None:
        """One thing less that `nodes` wait for."""
        for at in nodes:
            self._waits[at] -= 1
            if self._waits[at] == 0:
                heappush(self._heap, at)
        self._run()

    def _run(self) -> None:
        if self._running:
            return
        self._running = True
        try:
            while self._heap:
                self._settle(self.plan.graph.nodes[heappop(self._heap)])
        finally:
            self._running = False

    def _settle(self, node: Node) -> None:
        """Start the node, unless it is dead or its token has failed; everything it had to wait for
        has passed."""
        fate = self._fates[node.id]
        if fate is None and any(self._fates[at] is _DEAD for at in self._control.solid[node.id]):
            fate = self._fates[node.id] = _DEAD
        if fate is _DEAD:
            self._kill(node)
        elif fate is not None:
            self._fail(node, fate)
        elif node.id in self._control.slow_forks:
            self._start_slowly(node)
            return
        else:
            self._begin(node)
        self._after(node)

    def _begin(self, node: Node) -> None:
        if self._tools is not None:
            self._tools.begin(self._control.guards.get(node.id))
        if node.op is Op.BRANCH:
            self._branch(node)
        elif node.op is Op.MERGE:
            self._merge(node)
        elif node.id in self._control.own:
            self._late.put(node.id, self._take_turn(node))
        else:
            self._late.put(node.id, self.run.handlers[node.op](self, node))

    def _take_turn(self, node: Node) -> Any:
        """The branch of the pass's item: held until the pass has given it all that it gives."""
        family: Family = self.values[node.attrs["fork"].node]
        assert family.gate is not None, "a fork that a loop walks has a gate"
        index = as_cell(self.operand(node.attrs["index"]))
        branch = Branch(Cell(), Gate(), owned=True)

        def begin(error: BaseException | None) -> None:
            try:
                if error is not None:
                    raise error
                self._hold(node, family.branches.value[index.value], branch)
            except (IndexError, TypeError) as wrong:
                branch.stream.fail(wrong if wrong is error else self.fail(node, wrong))
            except BaseException as failure:
                branch.stream.fail(failure)
            self.undefer()

        self.defer()
        family.gate.enter([family.branches, index], begin)
        return branch

    def _hold(self, node: Node, stream: Stream, branch: Branch) -> None:
        self.opened_branch(node, stream)
        turns = stream.turns = stream.turns or Gate()
        turns.hold(lambda _: branch.stream.set(stream))
        last = self._control.last.get(("stream", node.id), node.id)
        self.when_passed([last], lambda: branch.enter(lambda _: turns.release()))

    def _start_slowly(self, fork: Node) -> None:
        """A fork whose ordinal the run decides: its stream waits for the ordinal."""

        def ready(cell: Cell) -> None:
            if cell.error is not None:
                self._fail(fork, cell.error)
            else:
                self._begin(fork)
            self._after(fork)
            self._run()

        as_cell(self.operand(fork.attrs["ordinal"])).then(ready)

    def _after(self, node: Node) -> None:
        value = self._late.known(node.id)
        if node.id in self._control.turns and type(value) is LoopValues and not value.ended.done:
            value.ended.then(lambda _: self._passed(node))
        else:
            self._passed(node)

    def _passed(self, node: Node) -> None:
        self._waits[node.id] = -1
        if self._tools is not None and node.id in self._control.guards:
            self._tools.passed(self._control.guards[node.id])
        for then in self._watchers.pop(node.id, ()):
            then()
        self._left -= 1
        self._release(self._control.after[node.id])
        if self._left == 0:
            self._left = -1
            self.undefer()

    # -- tokens

    def _branch(self, node: Node) -> None:
        truth = Outcome() if "on" in node.attrs else Cell()
        self._late.put(node.id, truth)
        if type(truth) is Outcome:
            decide(self, node, truth)
        else:
            self._ask(node, truth)
        truth.then(lambda cell: self._decide(node, cell))

    def _ask(self, node: Node, truth: Cell) -> None:
        if self.chain is not None and node.id not in self.plan.tried:
            self.chain.guard(truth)
        self.compute(node, self.operand(node.attrs["cond"]), bool, truth)

    def _decide(self, branch: Node, truth: Cell) -> None:
        if truth.error is not None:
            self._settle_tokens(branch.id, truth.error, truth.error)
        elif truth.value:
            self._settle_tokens(branch.id, _ARRIVED, _DEAD)
        else:
            self._settle_tokens(branch.id, _DEAD, _ARRIVED)

    def _settle_tokens(self, branch: int, yes: Any, no: Any) -> None:
        self._settle_token((branch, True), yes)
        self._settle_token((branch, False), no)
        self._run()

    def _settle_token(self, token: Token, state: Any) -> None:
        self._tokens[token] = state
        under = self._control.under.get(token, ())
        for at in under:
            self._fates[at] = None if state is _ARRIVED else state
            self._waits[at] -= 1
            if self._waits[at] == 0:
                heappush(self._heap, at)
        for at in self._control.merges.get(token, ()):
            self._join_token(at, token, state)

    def _join_token(self, merge: int, token: Token, state: Any) -> None:
        """One of the tokens of a Merge is settled."""
        if merge in self._arrived:
            return
        listed = self.plan.graph.nodes[merge].attrs["tokens"]
        left = self._open_tokens.get(merge, len(listed)) - 1
        self._open_tokens[merge] = left
        if state is _ARRIVED:
            pairs = ((ref.node, arm) for ref, arm in listed)
            self._arrived[merge] = next(i for i, pair in enumerate(pairs) if pair == token)
        elif left > 0:
            return
        else:
            states = [self._tokens[ref.node, arm] for ref, arm in listed]
            self._fates[merge] = next((s for s in states if s is not _DEAD), _DEAD)
            self._arrived[merge] = -1
        self._waits[merge] -= 1
        if self._waits[merge] == 0:
            heappush(self._heap, merge)

    def _merge(self, node: Node) -> None:
        values = node.attrs["values"]
        value = values[self._arrived[node.id]] if values else None
        if type(value) is Ref:
            found = self.values[value.node]
        elif type(value) in (tuple, list, dict):
            found = as_cell(self.operand(value))
        else:
            found = value
        self._late.put(node.id, found)
        self._settle_token((node.id, True), _ARRIVED)

    # -- what does not run

    def _kill(self, node: Node) -> None:
        self.dead += 1
        error = NotReached("this part of the program was not reached")
        self._give_failed(node, error)
        if node.op is Op.BRANCH:
            self._settle_tokens(node.id, _DEAD, _DEAD)
        elif node.op is Op.MERGE:
            self._settle_token((node.id, True), _DEAD)
        elif node.op is Op.RETURN:
            found = self.root.core.cut or self.root.ctx.first_error(self.prefix)
            self._end(node, found or error)
        elif self.lives is not None:
            note_dead(self, node, self.lives, self._late.known)

    def _fail(self, node: Node, error: BaseException) -> None:
        """The node's token has failed: so has the node, and its stream stops."""
        if self._tools is not None and node.id in self._control.guards:
            self._tools.begin(self._control.guards[node.id])
            if node.id not in self.plan.tried:
                self._tools.guard(Cell.failed(error))
        if node.appends:
            failed = Cell.failed(error)
            self.in_stream(node, lambda stream: _stop(stream, failed, node, self.order(node)))
        if node.op is Op.BRANCH:
            self._settle_tokens(node.id, error, error)
        elif node.op is Op.MERGE:
            self._settle_token((node.id, True), error)
        if node.op in _STILL_STARTED:
            self._late.put(node.id, self.run.handlers[node.op](self, node))
        elif node.op is Op.RETURN:
            self._end(node, error)
        else:
            self._give_failed(node, error)

    def _give_failed(self, node: Node, error: BaseException) -> None:
        if self.run.needs is not None:
            self.expect(self.run.needs.node(node), -1)
        value: Any = Cell.failed(error)
        if node.op is Op.LOOP:
            value = LoopValues(node)
            value.give_up(error)
        elif node.op is Op.SUB_PROGRAM:
            value = Handle()
            value.frame.fail(error)
        self._late.put(node.id, value)

    def _end(self, node: Node, error: BaseException) -> None:
        """The Return does not run."""
        failed = Cell.failed(error)
        names = node.attrs["vars"]
        if self.carried is not None:
            self.end_pass(failed, dict.fromkeys(names, failed), failed)
        else:
            self.end(failed, {name: failed_variable(name, error) for name in names})

    # -- what a Frame offers, later

    def end(self, result: Cell, variables: dict[str, Pending]) -> None:
        result.forward(self.result)
        self.variables = variables
        self.returned.set(None)

    def end_pass(self, result: Cell, carried: dict[str, Any], kind: Any) -> None:
        assert self.carried is not None, "the Return of a body in a graph"
        result.forward(self.result)
        for name, placeholder in self.carried.items():
            fill_pending(placeholder, carried[name])
        as_cell(kind).forward(self.kind)
        self.returned.set(None)

    def when_returned(self, then: Callable[[], None]) -> None:
        self.returned.then(lambda _: then())

    def when_written(self, then: Callable[[], None]) -> None:
        self.dispatched.then(lambda _: then())

    def when_branches_written(self, join: Node, then: Callable[[], None]) -> None:
        self.when_passed(self._control.tails[join.id], then)


def _stop(stream: Stream, failed: Cell, node: Node, order: Any) -> None:
    stream.append(failed, node.source, order)


class _State:
    __slots__ = ()


_ARRIVED, _DEAD = _State(), _State()

# In a stream that has failed they do nothing, but their branches and roles must be there.
_STILL_STARTED = (
    Op.GEN,
    Op.SELECT,
    Op.FORK,
    Op.GET_FORK_ITEM,
    Op.JOIN,
    Op.ROLE_BEGIN,
    Op.ROLE_END,
)
