"""The driver of one interpreted program body: its stream, sub-programs and tools."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator, Mapping
from queue import SimpleQueue
from typing import Any

from sgc.lang.bridge import Bridge
from sgc.lang.current import driving
from sgc.lang.forks import ForkGroup
from sgc.lang.function import ProgramSpec
from sgc.lang.handle import Handle
from sgc.lang.race import close_members, entrant, members_of
from sgc.lang.source import caller_source, raised_at, refusal
from sgc.lang.state import ProgramState
from sgc.lang.tools import Tool
from sgc.lang.workers import start_body
from sgc_ir.errors import SgcError
from sgc_runtime.executor.cell import Cell, gather
from sgc_runtime.executor.context import RunContext, give_place
from sgc_runtime.executor.pending import Pending
from sgc_runtime.executor.race import Race
from sgc_runtime.executor.stream import Stream
from sgc_runtime.executor.tools import own_copy


class Body:
    """Runs the function of one program instance in a thread; `sub(x)` and `sgc.call` reach it."""

    live = True

    def __init__(self, ctx: RunContext, spec: ProgramSpec, stream: Stream) -> None:
        self.ctx = ctx
        self.spec = spec
        self.root = stream
        self.bridge = Bridge(ctx, stream.core)
        self._stream = stream  # the stream whose body runs now; `s.call` changes it
        self._streams = [stream]
        self._subs: list[Body] = []
        self._done = Cell()

    def start(self, values: Mapping[str, Any], context: contextvars.Context) -> Cell:
        """Start the thread; the cell gets the return value, or what the body raised.

        To be called on the event loop. The row waits for the body. Lists and dicts among `values`
        are copied: what the body does to them stays inside of it.
        """
        own = {name: own_copy(value) for name, value in values.items()}
        future = start_body(lambda: self._run(own), f"sgc-{self.spec.name}", context)
        self.ctx.enter()
        future.add_done_callback(lambda f: self._finish(*f.result()))
        return self._done

    def ended(self) -> Cell:
        """Done when the body, all of its branches and its sub-programs have ended, well or not."""
        cell = Cell()

        def body_ended(_: Cell) -> None:
            parts = [stream.drained() for stream in self._streams]
            parts += [sub.ended() for sub in self._subs]
            gather(parts, lambda _: cell.set(None))

        self._done.then(body_ended)
        return cell

    def branches(self, streams: list[Stream]) -> list[Stream]:
        """Note streams that this body has opened."""
        self._streams += streams
        return streams

    @property
    def stream(self) -> Stream:
        """The stream whose body runs now."""
        return self._stream

    def body_of(self, spec: ProgramSpec, stream: Stream) -> Body:
        """The driver of a sub-program."""
        return Body(self.ctx, spec, stream)

    def run_function(
        self, spec: ProgramSpec, state: ProgramState, values: Mapping[str, Any]
    ) -> Any:
        """Run the function of a program; gives its return value."""
        return spec.fn(state, **values)

    def _run(self, values: Mapping[str, Any]) -> Any:
        state = ProgramState(self, self.root)
        try:
            with driving(self):
                value = self.run_function(self.spec, state, values)
            self.bridge.go_on()
            check_value(value, self.spec)
        except BaseException as error:
            self.bridge.ended_with(error)
            raise
        return value

    def _finish(self, value: Any, error: BaseException | None) -> None:
        self.root.close()
        error = error or self.bridge.left_failure()
        if self.root.core.cut is not None:
            self._done.fail(self.root.core.cut)
        elif error is None:
            self._done.set(value)
        else:
            if not isinstance(error, Exception) and error is not self.ctx.cancelled:
                error = _as_exception(error, self.spec)
            self._place(error)
            self.ctx.note_again(error, self.root.scope.order())
            self._done.fail(error)
        self.ctx.leave()

    def _place(self, error: BaseException) -> None:
        """Give an exception of the body, which keeps its type, the attributes of a node's error."""
        place = {
            "program": self.spec.name,
            "instance": self.ctx.row,
            "node": self.root.path,
            "source": str(raised_at(error)) or None,
        }
        give_place(error, place)

    # -- calls without a state

    def sub_program(self, program: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Handle:
        """Start `program` in a stream and a thread of its own; gives its handle at once."""
        spec: ProgramSpec = program.spec
        values = spec.arguments(args, kwargs)
        context, caller = contextvars.copy_context(), self._stream

        def start() -> Handle:
            sub = self.body_of(spec, caller.sub_program(spec.name))
            self._subs.append(sub)
            return Handle(sub, sub.start(values, context))

        return self.bridge.ask(start)

    def inline(
        self, state: ProgramState, program: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """`s.call`: the body of `program` in the stream of `state`; gives its return value."""
        spec = getattr(program, "spec", None)
        if not isinstance(spec, ProgramSpec):
            raise refusal(f"s.call({program!r}); give a program made by @sgc.function")
        values = spec.arguments(args, kwargs)
        before, self._stream = self._stream, state._stream
        try:
            return self.run_function(spec, state, values)
        finally:
            self._stream = before

    def tool_call(self, tool: Tool, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call `tool` and wait for its result, so that tools keep program order."""
        source, own_args, own_kwargs = caller_source(), own_copy(args), own_copy(dict(kwargs))
        stream = self._stream
        return self.bridge.value(lambda: stream.tool_call(tool, own_args, own_kwargs, source))

    def first(self, count: Any, branches: Any) -> Any:
        """Wait for the first `count` of `branches`, and cancel the others."""
        members = members_of(branches, self.root)
        source, stream = caller_source(), self._stream
        close_members(branches, members)

        def begin() -> Cell:
            ordinal, result = stream.take_ordinal("g"), Cell()
            race = Race(result, ordinal, source, stream.scope.order())
            try:
                entrants = [entrant(member) for member in members]
            except ValueError as wrong:
                race.refuse(stream.core, str(wrong))
            else:
                race.begin(stream.core, count, entrants)
            return result

        return own_copy(self.bridge.value(begin))

    # -- reading

    def pieces(self, find: Callable[[], Pending]) -> Iterator[str]:
        """Pieces of a variable's text as they come; raises the error of the node that failed."""
        arrived: SimpleQueue[tuple[str, bool]] = SimpleQueue()

        def watch() -> Pending:
            pending = find()
            pending.watch(lambda piece, done: arrived.put((piece, done)))
            return pending

        pending = self.bridge.ask(watch)
        done = False
        while not done:
            piece, done = arrived.get()
            if piece:
                yield piece
        self.bridge.value(lambda: pending.value)


def check_value(value: Any, spec: ProgramSpec) -> None:
    """Refuse a return value that is, or holds, a branch. Raises CompileError."""
    if isinstance(value, list | tuple):
        for item in value:
            check_value(item, spec)
    elif isinstance(value, dict):
        for item in value.values():
            check_value(item, spec)
    elif isinstance(value, ProgramState | ForkGroup):
        raise refusal(f"{spec.name} returns a branch; return its variables or text", spec.place)


def _as_exception(error: BaseException, spec: ProgramSpec) -> Exception:
    ended = SgcError(f"{spec.name}: the body ended by {type(error).__name__}; let it return")
    ended.__cause__ = error
    return ended
