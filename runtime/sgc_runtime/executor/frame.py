"""One running graph: the values of its nodes, as far as they are known, and where they go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sgc_ir.analysis.needs import Need, Size
from sgc_ir.analysis.needs_graph import Needs
from sgc_ir.errors import GenerationError
from sgc_ir.graph import ROOT_STREAM, Graph, Node, Ref
from sgc_runtime.executor.cell import Cell, resolve
from sgc_runtime.executor.context import give_place
from sgc_runtime.executor.effects import EffectChain
from sgc_runtime.executor.executable import Executable, GraphPlan
from sgc_runtime.executor.gate import Branch, Family, Gate
from sgc_runtime.executor.lifetimes import GraphLives
from sgc_runtime.executor.operations import ForkPoint
from sgc_runtime.executor.pending import Pending
from sgc_runtime.executor.scope import Order
from sgc_runtime.executor.stream import Stream
from sgc_runtime.executor.tools import Tool


class BodyRoot(NamedTuple):
    """The stream around a loop as it was where the loop stands, for the loop's passes."""

    point: ForkPoint | None
    variables: Mapping[str, Pending]
    text: Cell
    messages: Cell


class GraphRun:
    """What all frames of one row share.

    Attributes:
        plain: long lists that are known to hold no Cell, by their id.
        lives: what is known of the prompts of each graph, by its id; empty where nobody asks.
        needs: what nodes generate and say at most, or None.
    """

    __slots__ = ("executable", "handlers", "lives", "needs", "plain", "tools")

    def __init__(
        self,
        executable: Executable,
        tools: Mapping[str, Tool],
        handlers: Mapping[Any, Callable[[Frame, Node], Any]],
        lives: Mapping[int, GraphLives],
        needs: Needs | None = None,
    ) -> None:
        self.executable = executable
        self.lives, self.needs = lives, needs
        self.tools = tools
        self.handlers = handlers
        self.plain: dict[int, list[Any]] = {}


class Frame:
    """A graph, or one pass of a loop's body, being run.

    Nodes are started in program order, all at once; a node's value is plain, or a Cell, Pending,
    Family, Branch, Stream or Handle. Only what depends on a width that the run decides is started
    later (`defer` ... `undefer`).

    Attributes:
        prefix: place of the frame in program order; a node's order is the prefix and its id.
        result: the graph's value. variables: its variables at the end.
        carried: of a loop's pass, what it hands to the next one; None in other frames.
        kind: of a loop's pass, how it ended: 0 the loop goes on, 1 break, 2 return.
        dispatched: done once every node has been started.
        dead: number of nodes that turned out not to run.
        lives: what is known of the graph's prompts, or None. sizes: of its parameters.
    """

    __slots__ = (
        "_deferred",
        "_gates",
        "body_root",
        "carried",
        "chain",
        "dead",
        "dispatched",
        "kind",
        "lives",
        "opened",
        "params",
        "plan",
        "prefix",
        "result",
        "root",
        "run",
        "sizes",
        "values",
        "variables",
    )

    def __init__(
        self,
        run: GraphRun,
        graph: Graph,
        root: Stream,
        params: Mapping[str, Any],
        prefix: Order,
        chain: EffectChain | None = None,
        body_root: BodyRoot | None = None,
        carried: dict[str, Any] | None = None,
    ) -> None:
        self.run = run
        self.plan: GraphPlan = run.executable.plan(graph)
        self.lives = run.lives.get(id(graph))
        self.sizes: Mapping[str, Size] = {}
        self.root = root
        self.params = params
        self.prefix = prefix
        self.chain = chain
        self.body_root = body_root
        self.carried = carried
        self.kind: Any = 0
        self.values: list[Any] = []
        self.opened: list[Stream] = []  # branches that end with this frame
        self.result: Cell = Cell.of(None)
        self.variables: dict[str, Pending] = {}
        self.dispatched = Cell()
        self.dead = 0
        self._deferred = 1
        self._gates: dict[int, Gate] | None = None

    def start(self) -> None:
        """Start every node that can be."""
        values = self.values
        for handler, node in self.plan.steps(self.run.handlers):
            values.append(handler(self, node))
        self.undefer()

    def defer(self) -> None:
        """Something of this frame will be started later."""
        self._deferred += 1

    def undefer(self) -> None:
        """It has been started."""
        self._deferred -= 1
        if self._deferred == 0:
            for stream in self.opened:
                stream.close()
            if self.root.ctx.nodes is not None:
                self.root.ctx.nodes.count(len(self.values) - self.dead, self.dead)
            self.dispatched.set(None)

    # -- the end of the graph

    def end(self, result: Cell, variables: dict[str, Pending]) -> None:
        """The Return of a graph has been started."""
        self.result, self.variables = result, variables

    def end_pass(self, result: Cell, carried: dict[str, Any], kind: Any) -> None:
        """The Return of a loop's body has been started."""
        self.result, self.carried, self.kind = result, carried, kind

    def when_returned(self, then: Callable[[], None]) -> None:
        """Call `then` when the Return has been started."""
        then()

    def when_written(self, then: Callable[[], None]) -> None:
        """Call `then` when all that the frame's own stream gets has been given to it."""
        then()

    def when_branches_written(self, join: Node, then: Callable[[], None]) -> None:
        """Call `then` when the branches that `join` joins have been given all that they get."""
        then()

    # -- operands

    def operand(self, value: Any) -> Any:
        """An attribute with each Ref replaced by a value or Cell."""
        kind = type(value)
        if kind is Ref:
            found = self.values[value.node]
            return found.value if type(found) is Pending else found
        if kind is tuple:
            return tuple([self.operand(item) for item in value])
        if kind is list:
            return [self.operand(item) for item in value]
        if kind is dict:
            return {key: self.operand(item) for key, item in value.items()}
        return value

    def lead(self, node: Node) -> tuple[Any, ...]:
        """Values and Cells with which the text begins that `node` appends, for hints."""
        if self.lives is None:
            return ()
        return tuple([self.operand(part) for part in self.plan.leading(node)])

    def order(self, node: Node) -> Order:
        """Place of `node` in program order."""
        return (*self.prefix, node.id) if self.prefix else (node.id,)

    # -- streams

    def stream_now(self, node: Node) -> Stream | None:
        """The node's stream, or None where it is reached through a gate: see `in_stream`."""
        if node.stream == ROOT_STREAM:
            return self.root
        found = self.values[node.stream]
        return found if type(found) is Stream else None

    def in_stream(
        self,
        node: Node,
        begin: Callable[[Stream], Any],
        failed: Callable[[BaseException], None] | None = None,
    ) -> None:
        """Call `begin` with the node's stream, in program order, now or when there is one."""
        now = self.stream_now(node)
        if now is not None:
            begin(now)
            return
        found = self.values[node.stream]
        assert type(found) is Branch, "a node's stream is not a branch"
        stream = found.stream
        self.defer()

        def enter(error: BaseException | None) -> None:
            if error is None:
                begin(stream.value)
            elif failed is not None:
                failed(error)
            self.undefer()

        found.enter(enter)

    def opened_branch(self, node: Node, branch: Stream) -> Stream:
        """The branch that `node` opens; it knows from now on what is to come of it."""
        core = branch.core
        if self.lives is not None and core.forked_from is not None:
            if core.life is None:
                core.life = self.lives.begin(node.id, core.forked_from.life)
            else:
                self.lives.go_on(node.id, core.life)
        return branch

    def gate_of(self, fork: int) -> Gate:
        """The gate of a fork's branches, one for all forks among which the run chooses."""
        first = self.plan.one_gate.get(fork)
        if first is None:
            return Gate()
        if self._gates is None:
            self._gates = {}
        return self._gates.setdefault(first, Gate())

    def note_chosen(self, node: Node, branch: Stream, families: Sequence[Family]) -> None:
        """Among branches of several forks the run has chosen the one that `node` opens."""
        if len(families) < 2 or self.lives is None:
            return
        parent = branch.core.forked_from
        lives = [family.life for family in families if family.life is not None]
        if parent is not None and parent.life is not None:
            self.lives.choose(node.id, parent.life, lives)

    def stream_path(self, node: Node) -> str:
        """Path of the node's stream, as far as it is known."""
        if node.stream == ROOT_STREAM:
            return self.root.path
        found = self.values[node.stream]
        if type(found) is Branch:
            found = found.stream.value
        return found.path if type(found) is Stream else self.root.path

    # -- errors

    def _place(self, node: Node, path: str) -> dict[str, Any]:
        return {
            "program": self.root.program,
            "instance": self.root.ctx.row,
            "node": path,
            "source": str(node.source) or None,
        }

    def expect(self, need: Need, times: int, opened: int = 0) -> None:
        """So often `need` is to come besides what was counted; negative: it is not to come."""
        to_come = self.root.ctx.to_come
        if to_come is not None:
            to_come.add(need.amount(self.sizes), times, opened)

    def fail(self, node: Node, error: Exception) -> Exception:
        """Note an error of a data node; it keeps its type and gets its place as attributes
        (`program, instance, node, source`); `node` is the path of the program instance, since
        the interpreter knows no more about an expression."""
        give_place(error, self._place(node, self.root.path))
        self.root.ctx.fail(error, self.order(node))
        return error

    def node_failure(self, node: Node, reason: str, path: str | None = None) -> GenerationError:
        """A GenerationError of a data node, noted as an error of the row; `path` is that of the
        node's stream, if not given."""
        place = self._place(node, self.stream_path(node) if path is None else path)
        error = GenerationError(reason, **place)
        self.root.ctx.fail(error, self.order(node))
        return error

    def compute(self, node: Node, operand: Any, work: Callable[[Any], Any], into: Cell) -> None:
        """Put `work(resolved operand)` into a cell; an exception of `work` is the node's error."""

        def ready(value: Any, error: BaseException | None) -> None:
            if error is not None:
                into.fail(error)
                return
            try:
                result = work(value)
            except Exception as failure:
                into.fail(self.fail(node, failure))
                return
            into.set(result)

        resolve(operand, ready)
