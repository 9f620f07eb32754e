"""What all streams of one row share: backend, defaults, errors, usage, work in flight."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from sgc_ir.errors import DeadlineError, GenerationError
from sgc_ir.params import Usage
from sgc_runtime.executor.backend import Backend, BackendStream, ChatTemplate, RunDefaults
from sgc_runtime.executor.backend_source import BackendSource
from sgc_runtime.executor.cell import Cell
from sgc_runtime.executor.chatml import ChatML
from sgc_runtime.executor.event import Event
from sgc_runtime.executor.merges import Merges
from sgc_runtime.executor.node_log import NodeLog
from sgc_runtime.executor.node_stats import NodeTable
from sgc_runtime.executor.policy import Policies
from sgc_runtime.executor.scope import Order, Scope
from sgc_runtime.executor.to_come import ToCome


def give_place(error: BaseException, place: Mapping[str, Any]) -> None:
    """Give an exception that keeps its type the attributes of a node's error (`program, instance,
    node, source`), where it has none yet."""
    for name, value in place.items():
        if getattr(error, name, None) is None:
            setattr(error, name, value)


T = TypeVar("T")


class Abortable(Protocol):
    """A stream, as far as its context knows it."""

    def abort(self, error: BaseException) -> None: ...

    def forget_error(self, error: BaseException) -> None: ...


class RunContext:
    """One row of a run. All methods belong to the event-loop thread.

    Args:
        backend: a backend, a source that makes it at the first model call, or None when the
            program makes no model call (roles then render as ChatML).
        defaults: sampling defaults and run seed.
        row: input row index, 0 for a single run.
        program: name of the program, for error messages.
        on_event: called with each `Event`, on the event-loop thread.
        stream_text: ask the backend for text pieces although `on_event` is None.
        log: the row's journal.
        policies: deadlines and retries of the nodes.
        nodes: counts what each node costs.
    """

    def __init__(
        self,
        backend: Backend | BackendSource | None = None,
        defaults: RunDefaults | None = None,
        row: int = 0,
        program: str = "",
        on_event: Callable[[Event], None] | None = None,
        stream_text: bool = False,
        log: NodeLog | None = None,
        policies: Policies | None = None,
        nodes: NodeTable | None = None,
    ) -> None:
        if backend is None:
            self.source = BackendSource.none()
        elif isinstance(backend, BackendSource):
            self.source = backend
        else:
            self.source = BackendSource.of(backend)
        self.has_backend = backend is not None
        self.defaults = defaults or RunDefaults()
        known = self.source.backend
        takes_hints = known is None or getattr(known, "takes_hints", False)
        self.tells = self.defaults.hints and takes_hints  # what is known of calls to come
        self.turn = None if self.defaults.row_parallel else asyncio.Lock()  # of model calls
        self.row = row
        self.instance = next(_instances)
        self.to_come: ToCome | None = None  # of calls that are not issued yet, where somebody asks
        self.shared_chars = 0  # of the root's prompt, which rows to come begin with too, if known
        self.merges: Merges | None = None  # where equal calls of the run are made once
        self.scope = Scope(program)
        self.on_event = on_event
        self.stream_text = stream_text or on_event is not None
        self.log = log
        self.policies = policies
        self.nodes = nodes
        self.usage = Usage()
        self.spent: list[tuple[Abortable, Usage]] = []  # of each call, with its stream
        self.cancelled: BaseException | None = None
        self._ended_by: BaseException | None = None
        self._errors: dict[int, tuple[Order, BaseException]] = {}
        self._acknowledged: list[BaseException] = []  # kept alive: known by identity
        self._streams: list[Abortable] = []
        self._backend_streams: set[BackendStream] = set()
        self._tasks: dict[asyncio.Task[Any], tuple[str, Any]] = {}  # with node and operation
        self._cut: list[Order] = []  # places of sub-programs whose errors do not count
        self._failed_readings: dict[int, list[Order]] = {}  # error -> where it was read
        self._lost: dict[int, tuple[Order, BaseException]] = {}  # what cancelled a part, and where
        self._busy = 0
        self._idle: Cell | None = None

    # -- errors

    def fail(self, error: BaseException, order: Order) -> None:
        """Note an error of the row. An error known already keeps its first place."""
        if any(order[: len(prefix)] == prefix for prefix in self._cut):
            return
        if self.cancelled is None and not any(e is error for e in self._acknowledged):
            self._errors.setdefault(id(error), (order, error))

    def first_error(self, prefix: Order = ()) -> BaseException | None:
        """The first error in program order that no `except` took, or the cancellation; only those
        of one program instance with the `prefix` of its scope."""
        if self._ended_by is not None:
            return self._ended_by
        found = [item for item in self._errors.values() if item[0][: len(prefix)] == prefix]
        return min(found, key=lambda item: item[0])[1] if found else None

    def acknowledge(self, error: BaseException) -> None:
        """An `except` of the program took `error`: streams that it stopped go on after what they
        were given so far."""
        if self.cancelled is not None:
            return
        self._errors.pop(id(error), None)
        self._acknowledged.append(error)
        for stream in self._streams:
            stream.forget_error(error)

    def note_again(self, error: BaseException, order: Order) -> None:
        """The program has raised an error that it may have taken before: it fails the row."""
        self._acknowledged = [known for known in self._acknowledged if known is not error]
        self.fail(error, order)

    # -- work in flight

    def enter(self) -> None:
        """Something began that the row must wait for."""
        self._busy += 1

    def leave(self) -> None:
        """Something that `enter` announced has ended."""
        self._busy -= 1
        if self._busy == 0 and self._idle is not None:
            asyncio.get_running_loop().call_soon(self._check_idle)

    def _check_idle(self) -> None:
        if self._busy == 0 and self._idle is not None:
            idle, self._idle = self._idle, None
            idle.set(None)

    async def wait_idle(self) -> None:
        """Wait until no stream and no tool of this row has anything left to do."""
        if self.cancelled is not None:
            return
        if self._idle is None:
            self._idle = Cell()
            if self._busy == 0:
                asyncio.get_running_loop().call_soon(self._check_idle)
        future = asyncio.get_running_loop().create_future()
        self._idle.then(lambda _: None if future.done() else future.set_result(None))
        await future

    async def run_to_end(self, begin: Callable[[], T]) -> T:
        """What `begin()` gives, once all that it began has ended; then the backend streams are
        closed. Cancelling it cancels the row."""
        try:
            begun = begin()
            await self.wait_idle()
        except asyncio.CancelledError:
            self.cancel()
            raise
        finally:
            self.close()
        return begun

    def spawn(self, coro: Coroutine[Any, Any, None], node: str, op: Any) -> asyncio.Task[None]:
        """Run `coro`, by which `op` calls `node`, as a task that `cancel` cancels."""
        task = asyncio.get_running_loop().create_task(coro)
        self._tasks[task] = (node, op)
        task.add_done_callback(self._tasks.pop)
        return task

    def add_stream(self, stream: Abortable) -> None:
        """Register a stream; `cancel` and `acknowledge` reach it."""
        self._streams.append(stream)
        if self._ended_by is not None:
            stream.abort(self._ended_by)

    def cancel(self, error: BaseException | None = None) -> None:
        """Stop the row: no further call is issued, calls in flight are cancelled, and whatever is
        still pending fails with `error`, by default `asyncio.CancelledError`."""
        if self.cancelled is not None:
            return
        self.cancelled = asyncio.CancelledError("the run was cancelled")
        self._ended_by = error or self.cancelled
        for task in list(self._tasks):
            task.cancel()
        for stream in self._streams:
            stream.abort(self._ended_by)

    # -- cancelling a part

    @property
    def streams(self) -> Sequence[Abortable]:
        """All streams of the row."""
        return self._streams

    def drop_errors(self, errors: Iterable[BaseException], prefix: Order | None) -> None:
        """`errors` do not fail the row, nor do those, also later ones, of the program instance at
        the place `prefix`."""
        for error in errors:
            self._errors.pop(id(error), None)
        if prefix is not None:
            self._cut.append(prefix)
            inside = [k for k, (o, _) in self._errors.items() if o[: len(prefix)] == prefix]
            for key in inside:
                del self._errors[key]

    def lose(self, error: BaseException, order: Order) -> None:
        """A part of the row was cancelled with `error`, or has failed with it, which does not count
        as far as what stands at `order`; who reads it from there on fails the row."""
        self._lost[id(error)] = (order, error)
        for read in self._failed_readings.pop(id(error), ()):
            self.note_reading(error, read)

    def note_reading(self, error: BaseException, order: Order) -> None:
        """The program reads, at `order`, what has failed: where that was cancelled earlier in
        program order, the row fails."""
        lost = self._lost.get(id(error))
        if lost is None:  # perhaps it will be
            self._failed_readings.setdefault(id(error), []).append(order)
        elif order > lost[0]:
            self.fail(error, order)

    def cancel_calls(self, streams: set[int], ops: set[int]) -> None:
        """Cancel the calls of the operations `ops`, and the pure tools of `streams`; what the calls
        of those used does not count. Both are known by `id`."""
        for task, (_, op) in list(self._tasks.items()):
            if id(op) in ops or id(getattr(op, "core", None)) in streams:
                task.cancel()
        kept = [(stream, usage) for stream, usage in self.spent if id(stream) not in streams]
        if len(kept) < len(self.spent):
            self.spent = kept
            self.usage = sum((usage for _, usage in kept), Usage())

    def expire(self, seconds: float) -> None:
        """The row's deadline has passed: it ends now with a GenerationError that names the nodes
        in flight, whether or not they let themselves be cancelled."""
        if self.cancelled is not None:
            return
        nodes = list(dict.fromkeys(node for node, _ in self._tasks.values()))
        cause = DeadlineError(f"the row took longer than its deadline of {seconds:g} s")
        error = GenerationError(
            f"{cause}; in flight: {_listed(nodes)}",
            program=self.scope.program,
            instance=self.row,
            node=nodes[0] if nodes else "",
        )
        error.__cause__ = cause
        self.cancel(error)
        if self._idle is not None:
            idle, self._idle = self._idle, None
            idle.set(None)

    # -- backend

    @property
    def template(self) -> ChatTemplate:
        """The backend's chat template. The backend must be loaded (see `template_ready`)."""
        backend = self.source.backend
        return backend.chat_template if backend is not None else _CHATML

    def template_ready(self) -> Cell:
        """Done once `template` may be asked; loads the backend if there is one to load."""
        return self.source.get() if self.has_backend else _READY

    def load_template(self) -> ChatTemplate:
        """The chat template; loads the backend and may block. Any thread."""
        return self.source.load().chat_template if self.has_backend else _CHATML

    async def backend_ready(self) -> None:
        """Wait until the backend has loaded its model, which no deadline counts."""
        ready = getattr(self.source.backend, "ready", None)
        if ready is not None:
            await ready()

    def opened(self, stream: BackendStream) -> BackendStream:
        """Note an open backend stream, so that `close` closes it."""
        self._backend_streams.add(stream)
        return stream

    def closed(self, stream: BackendStream) -> None:
        """Close a backend stream."""
        self._backend_streams.discard(stream)
        stream.close()

    def close(self) -> None:
        """The row has ended: close the backend streams that are still open."""
        for stream in list(self._backend_streams):
            self.closed(stream)


def _listed(nodes: list[str]) -> str:
    if not nodes:
        return "no node"
    more = f" and {len(nodes) - _MAX_LISTED} more" if len(nodes) > _MAX_LISTED else ""
    return ", ".join(nodes[:_MAX_LISTED]) + more


_MAX_LISTED = 8
_CHATML = ChatML()
_instances = itertools.count()
_READY = Cell.of(None)
