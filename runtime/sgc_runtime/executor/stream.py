"""A stream: one growing prompt with variables. Interpreter and graph executor both drive it.

All methods belong to the event-loop thread and return at once. Operands may be Cells. Operations
of one stream run in the order in which they were given, one at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sgc_ir.errors import GenerationError
from sgc_ir.params import SamplingParams
from sgc_runtime.executor.cell import Cell, ListCell, as_cell, gather
from sgc_runtime.executor.context import RunContext
from sgc_runtime.executor.core import Op, StreamCore
from sgc_runtime.executor.gate import Gate
from sgc_runtime.executor.lifetimes import CallFacts
from sgc_runtime.executor.model_call import ModelCall
from sgc_runtime.executor.operations import (
    AppendBranches,
    AppendLater,
    AppendMedia,
    AppendText,
    ForkPoint,
    Hint,
    Reading,
    Release,
    RoleBegin,
    RoleEnd,
)
from sgc_runtime.executor.pending import Pending
from sgc_runtime.executor.scope import Order, Scope
from sgc_runtime.executor.tool_call import ToolCall
from sgc_runtime.executor.tools import Tool

_KINDS = ("g", "f", "c")


def is_unnamed(name: str) -> bool:
    """Whether `name` was given by the runtime (`_1`, `_2` ...)."""
    return name[:1] == "_" and name[1:].isdecimal() and name.isascii()


class Stream:
    """One stream of a running program.

    Args:
        ctx: the row that the stream belongs to.
        scope: the program instance, for names and program order; the row's own if left out.

    Attributes:
        item: of a branch of `fork_each`, its item; else None.
        inherited: names of the variables that a branch had at the fork.
        turns: order of those who use a branch for long, as far as there are any.
        variables: name -> last write in program order, in order of first writing.
    """

    __slots__ = (
        "_closed",
        "_counts",
        "_unnamed",
        "core",
        "inherited",
        "item",
        "scope",
        "turns",
        "variables",
    )

    def __init__(
        self, ctx: RunContext, scope: Scope | None = None, core: StreamCore | None = None
    ) -> None:
        self.scope = scope or ctx.scope
        self.core = core or StreamCore(ctx, self.scope)
        self.variables: dict[str, Pending] = {}
        self.inherited: frozenset[str] = frozenset()
        self.item: Any = None
        self.turns: Gate | None = None
        self._counts = [0, 0, 0]
        self._unnamed = 0
        self._closed = False

    @property
    def ctx(self) -> RunContext:
        return self.core.ctx

    @property
    def path(self) -> str:
        """Dynamic path, "" for the root."""
        return self.core.path

    @property
    def program(self) -> str:
        """Name of the program whose statements this stream runs."""
        return self.scope.program

    @property
    def error(self) -> BaseException | None:
        """What stopped the stream, or None."""
        return self.core.error

    # -- writing

    def append(
        self, value: Any, source: Any = None, order: Order | None = None, lead: Sequence[Any] = ()
    ) -> None:
        """Text at the end; other values as their `str()`. `lead`: see `Op.lead`."""
        op = AppendText(_boxed(value), source, order or self.scope.order())
        self._write(AppendLater(op, lead) if lead else op)

    def role_begin(self, role: str, source: Any = None, order: Order | None = None) -> None:
        """Open a role turn."""
        self._write(RoleBegin(role, source, order or self.scope.order()))

    def role_end(self, source: Any = None, order: Order | None = None) -> None:
        """Close the open role turn."""
        self._write(RoleEnd(None, source, order or self.scope.order()))

    def media(
        self,
        kind: str,
        data: Any,
        num_frames: Any = None,
        source: Any = None,
        order: Order | None = None,
    ) -> None:
        """An image or a video; `data` is a path, URL or the encoded bytes."""
        op = AppendMedia((kind, data, num_frames), source, order or self.scope.order())
        self._write(op)

    def hint(self, facts: Any, source: Any = None, order: Order | None = None) -> None:
        """Facts of the program about what follows; may be ignored."""
        self._write(Hint(facts, source, order or self.scope.order()))

    def gen(
        self,
        name: str | None,
        params: Mapping[str, Any] | SamplingParams,
        source: Any = None,
        ordinal: Any = None,
        order: Order | None = None,
        facts: CallFacts | None = None,
    ) -> Pending:
        """Generate into variable `name` (None: the next unnamed one).

        `params` are the arguments that the gen sets, values may be Cells; with `choices` it is a
        select. `SamplingParams` are taken as they are, without the run's defaults.
        """
        number = self.take_ordinal("g") if ordinal is None else ordinal
        pending = Pending(name or self.next_name())
        op = ModelCall(pending, number, params, source, order or self.scope.order(), facts)
        pending.locate(lambda: op.path(self.core))
        self.variables[pending.name] = pending
        self._write(op)
        return pending

    def select(
        self,
        name: str | None,
        choices: Any,
        method: Any = None,
        source: Any = None,
        ordinal: Any = None,
        order: Order | None = None,
    ) -> Pending:
        """Put the most likely choice into variable `name`."""
        params = {"choices": choices, "method": method}
        return self.gen(name, params, source, ordinal, order)

    def tool_call(
        self,
        tool: Tool,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        source: Any = None,
        ordinal: int | None = None,
        order: Order | None = None,
    ) -> Cell:
        """Start a tool at once, off the event loop; gives its result. It takes no turn in the
        stream: who needs program order waits for the result. Operands are plain values."""
        number = self.take_ordinal("g") if ordinal is None else ordinal
        result = Cell()
        op = ToolCall(result, number, source, order or self.scope.order())
        op.begin(self.core, tool, args, kwargs)
        return result

    def set(self, name: str, operand: Any) -> Pending:
        """Write variable `name`."""
        pending = self.variables[name] = Pending.of(name, operand)
        return pending

    # -- branches and sub-programs

    def fork(
        self,
        width: int,
        source: Any = None,
        copy: bool = False,
        ordinal: int | None = None,
        items: Sequence[Any] | None = None,
        order: Order | None = None,
    ) -> list[Stream]:
        """Branches that go on from here; `items` gives each its `item` (then `width` is their
        number and may be 0).

        Raises GenerationError for a width below 1; the error also fails the row.
        """
        order = order or self.scope.order()
        number = self.take_ordinal("f") if ordinal is None else ordinal
        point = ForkPoint(source, order)
        branches = self.branches(point, width, number, items)
        point.close()  # before the stream gets there: it then needs no copy of the prompt to keep
        self._write(point)
        return branches

    def fork_point(self, source: Any = None, order: Order | None = None) -> ForkPoint:
        """A place to start branches from later; `close` it when no more will come."""
        point = ForkPoint(source, order or self.scope.order())
        self._write(point)
        return point

    def branches(
        self,
        point: ForkPoint,
        width: Any,
        ordinal: int,
        items: Sequence[Any] | None = None,
        variables: Mapping[str, Pending] | None = None,
    ) -> list[Stream]:
        """Branches that start at `point`, with this stream's variables as they are now, or
        `variables` where the point lies in the past."""
        width = len(items) if items is not None else width
        if items is None and (type(width) is not int or width < 1):
            reason = f"fork({width!r}); the width is a whole number, at least 1"
            raise self.failure(reason, point, f"f{ordinal}")
        known = self.variables if variables is None else variables
        inherited = frozenset(known)
        return [
            self._branch(
                point, ordinal, i, known, inherited, items[i] if items is not None else None
            )
            for i in range(width)
        ]

    def _branch(
        self,
        point: ForkPoint,
        ordinal: int,
        index: int,
        variables: Mapping[str, Pending],
        inherited: frozenset[str],
        item: Any,
    ) -> Stream:
        core = StreamCore(self.ctx, self.scope, self.core, ("f", ordinal, index), started=False)
        branch = Stream(self.ctx, self.scope, core)
        branch.variables = dict(variables)
        branch.inherited = inherited
        branch.item = item
        point.attach(core)
        return branch

    def sub_program(
        self, program: str, ordinal: int | None = None, order: Order | None = None
    ) -> Stream:
        """The root stream of another program that this one calls; it starts empty."""
        number = self.take_ordinal("c") if ordinal is None else ordinal
        scope = Scope(program, order or self.scope.order())
        return Stream(self.ctx, scope, StreamCore(self.ctx, scope, self.core, ("c", number, None)))

    def append_branches(
        self, branches: Sequence[Stream], source: Any = None, order: Order | None = None
    ) -> None:
        """`join("append")`: wait for the branches and append what each said since the fork.

        The branches stay readable, but cannot grow any more.
        """
        ready = Cell()
        self.append_later(ready, source, order)
        drain_branches(branches, ready)

    def append_later(self, ready: Cell, source: Any = None, order: Order | None = None) -> None:
        """`append_branches` for branches that are not known yet: see `drain_branches`."""
        self._write(AppendBranches(ready, source, order or self.scope.order()))

    def gather(
        self, branches: Sequence[Stream], source: Any = None, order: Order | None = None
    ) -> dict[str, Pending]:
        """`join("gather")`: variables that the branches gained since the fork, as lists in branch
        order, written to this stream. Waits for nothing; the branches cannot grow any more.

        Raises GenerationError when a branch lacks a variable; the error also fails the row.
        """
        op = Reading("drained", source, order or self.scope.order())
        gathered: dict[str, Pending] = {}
        names = dict.fromkeys(n for b in branches for n in b.variables if n not in b.inherited)
        for name in names:
            if is_unnamed(name):
                continue
            found = [branch.variables.get(name) for branch in branches]
            for branch, pending in zip(branches, found, strict=True):
                if pending is None:
                    raise self.failure(unset_reason(name, branch), op)
            values = [p.value for p in found if p is not None]
            metas = [p.meta for p in found if p is not None]
            gathered[name] = Pending(name, "", ListCell.holding(values), as_cell(metas))
        self.variables.update(gathered)
        for branch in branches:
            branch.close()
        return gathered

    # -- reading

    def get(self, name: str) -> Pending | None:
        """The last write of `name` in program order, or None."""
        return self.variables.get(name)

    def text(self, source: Any = None, order: Order | None = None) -> Cell:
        """The whole text, when everything given so far is done."""
        return self._read("text", source, order)

    def messages(self, source: Any = None, order: Order | None = None) -> Cell:
        """Role turns as plain data, an open one last, when everything given so far is done."""
        return self._read("messages", source, order)

    def drained(self) -> Cell:
        """None, when everything given so far is done; fails with the stream's error."""
        return self._read("drained", None, ())

    def _read(self, what: str, source: Any, order: Order | None) -> Cell:
        op = Reading(what, source, order if order is not None else self.scope.order())
        self.core.push(op)
        return op.cell

    def current_text(self) -> str:
        """The text so far, errors or not; loads the backend's template if need be. Any thread,
        once the row has ended."""
        prompt, ctx = self.core.prompt, self.core.ctx
        return prompt.text(ctx.load_template() if prompt.needs_template else ctx.template)

    # -- bookkeeping

    def next_name(self) -> str:
        """Name of the next unnamed gen or select: `_1`, `_2` ..."""
        self._unnamed += 1
        return f"_{self._unnamed}"

    def take_ordinal(self, kind: str) -> int:
        """The next ordinal among model and tool calls ("g"), forks ("f") or sub-programs ("c")."""
        i = _KINDS.index(kind)
        self._counts[i] += 1
        return self._counts[i] - 1

    def acknowledge(self, error: BaseException) -> None:
        """An `except` of the program took `error`: it no longer fails the row, and every stream
        that it stopped goes on without the failed operation."""
        self.ctx.acknowledge(error)

    def close(self) -> None:
        """Nothing will be appended any more; text, messages and variables stay readable."""
        if not self._closed:
            self._closed = True
            self.core.push(Release(None, None, ()))

    def failure(self, reason: str, op: Op, component: str = "") -> GenerationError:
        """A GenerationError at `op`, noted as an error of the row."""
        place = self.core.place(op)
        if component:
            place["node"] = f"{self.path}/{component}" if self.path else component
        error = GenerationError(reason, **place)
        self.ctx.fail(error, op.order)
        return error

    def _write(self, op: Op) -> None:
        if self._closed:
            reason = "the stream was joined or has ended, nothing can be added to it"
            op.skip(self.core, self.failure(reason, op))
        else:
            self.core.push(op)


def drain_branches(branches: Sequence[Stream], ready: Cell) -> None:
    """End `branches`; `ready` gets their cores when all they were given is done."""
    cores = [branch.core for branch in branches]
    drained = [branch.drained() for branch in branches]
    gather(drained, lambda error: ready.fail(error) if error else ready.set(cores))
    for branch in branches:
        branch.close()


def unset_reason(name: str, stream: Stream) -> str:
    """What to say where `name` is read and was never written."""
    place = f"branch {stream.path}" if stream.path else "the stream"
    known = [n for n in stream.variables if not is_unnamed(n)]
    return f"variable {name!r} is not set in {place}; set there: {', '.join(known) or 'nothing'}"


def _boxed(value: Any) -> Any:
    """Containers without Cells must not be taken for operands to resolve."""
    return value if type(value) is str or isinstance(value, (str, Cell)) else str(value)
