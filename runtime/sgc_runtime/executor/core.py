"""The heart of a stream: a queue of operations that run in order, one at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from sgc_ir.errors import GenerationError, SgcError
from sgc_runtime.executor.ahead import tell_ahead
from sgc_runtime.executor.backend import BackendStream
from sgc_runtime.executor.cell import Cell, as_cell
from sgc_runtime.executor.context import RunContext
from sgc_runtime.executor.lifetimes import Life
from sgc_runtime.executor.policy import GaveUp
from sgc_runtime.executor.prompt import Prompt, PromptError
from sgc_runtime.executor.scope import Order, Scope
from sgc_runtime.executor.shared_prefix import SharedPrefix, open_stream


class Op:
    """One operation of a stream.

    Attributes:
        operand: plain value, Cell, or nested containers of Cells that the operation waits for.
        source: place in the program; text or anything whose `str()` is `FILE:LINE`.
        order: place in program order.
    """

    __slots__ = ("operand", "order", "source")

    def __init__(self, operand: Any, source: Any, order: Order) -> None:
        self.operand = operand
        self.source = source
        self.order = order

    @property
    def lead(self) -> Sequence[Any]:
        """Texts, and Cells of texts, with which what it appends begins, as far as known."""
        return ()

    def run(self, core: StreamCore, value: Any) -> bool:
        """Do it; `value` is the resolved operand. True when done at once, else the operation
        calls `core.resume(self)` later. What it raises fails the node."""
        raise NotImplementedError

    def skip(self, core: StreamCore, error: BaseException) -> None:
        """The stream has failed (now or before): give up."""

    def path(self, core: StreamCore) -> str:
        """Dynamic path for error messages."""
        return core.path


class StreamCore:
    """Queue, prompt and error state of one stream.

    Attributes:
        cut: the error of a stream that was cancelled while the row goes on, else None.
        error: what stopped the stream, or None. Later operations fail with the same error.
        prompt: what the stream has said.
        life: what is still to come of it, where that is known.
        fork_chars: of a branch, length of the prompt at the fork; at least so much is common.
        told_chars: length of the prompt at its last call.
    """

    __slots__ = (
        "_active",
        "_backend_stream",
        "_base",
        "_current",
        "_index",
        "_kind",
        "_ordinal",
        "_parent",
        "_path",
        "_pumping",
        "_queue",
        "_started",
        "ctx",
        "cut",
        "error",
        "fork_chars",
        "life",
        "prompt",
        "scope",
        "suppressed_roles",
        "told_chars",
    )

    def __init__(
        self,
        ctx: RunContext,
        scope: Scope,
        parent: StreamCore | None = None,
        component: tuple[str, int, int | None] | None = None,
        started: bool = True,
    ) -> None:
        self.ctx = ctx
        self.scope = scope
        self.prompt = Prompt()
        self.error: BaseException | None = None
        self.cut: BaseException | None = parent.cut if parent is not None else None
        self.suppressed_roles = 0  # roles that began while the stream had failed
        self.life: Life | None = None
        self.fork_chars = self.told_chars = 0
        self._parent = parent
        self._kind, self._ordinal, self._index = component or ("", 0, None)
        self._path: str | None = None if component else ""
        self._queue: deque[Op] = deque()
        self._current: Op | None = None
        self._active = False
        self._pumping = False
        self._started = started
        self._base: SharedPrefix | None = None
        self._backend_stream: BackendStream | None = None
        ctx.add_stream(self)
        if self.cut is not None:
            self.abort(self.cut)

    @property
    def path(self) -> str:
        """Dynamic path, for example `f0[2]`; "" is the root."""
        if self._path is None:
            index = "" if self._index is None else f"[{self._index}]"
            self._path = self.child_path(self._kind, self._ordinal, index, self._parent)
        return self._path

    @property
    def forked_from(self) -> StreamCore | None:
        """The stream whose prompt this one goes on from; None where it began empty."""
        return self._parent if self._kind == "f" else None

    @staticmethod
    def child_path(kind: str, ordinal: int | str, suffix: str, parent: StreamCore | None) -> str:
        """Path of component `kind` + `ordinal` below `parent`."""
        prefix = parent.path if parent is not None else ""
        return f"{prefix}/{kind}{ordinal}{suffix}" if prefix else f"{kind}{ordinal}{suffix}"

    # -- the queue

    def push(self, op: Op) -> None:
        """Queue `op` and run what can run."""
        self._queue.append(op)
        if not self._active:
            self._active = True
            self.ctx.enter()
            self._pump()

    def start(self, prompt: Prompt, base: SharedPrefix | None, error: BaseException | None) -> None:
        """Begin a branch: its parent has reached the fork."""
        self._started = True
        self.prompt, self._base, self.error = prompt, base, self.error or error
        if self._active:
            self._pump()

    def resume(self, op: Op) -> None:
        """`op` is done; go on with the next one."""
        if self._current is op:
            self._current = None
            self._pump()

    def in_flight(self, op: Op) -> bool:
        """Whether `op` still holds the stream; false after the row was cancelled."""
        return self._current is op

    def _pump(self) -> None:
        if self._pumping:  # called from inside an operation: the loop below goes on by itself
            return
        self._pumping = True
        queue = self._queue
        try:
            while queue and self._current is None and self._started:
                op = queue.popleft()
                operand = op.operand
                if self.error is None and not isinstance(operand, _WAITABLE):
                    self._current = op
                    self._run(op, operand)
                else:
                    self._take(op)
        finally:
            self._pumping = False
        if self._active and self._current is None and not queue:
            self._active = False
            self.ctx.leave()

    def _take(self, op: Op) -> None:
        if self.error is not None:
            op.skip(self, self.error)
            return
        self._current = op
        cell = as_cell(op.operand)
        if cell.done:
            self._settle(op, cell)
        else:
            cell.then(self._operand_ready)
            if self.life is not None:
                tell_ahead(self, op.lead)

    def _operand_ready(self, cell: Cell) -> None:
        if self._current is not None:  # None: aborted meanwhile
            self._settle(self._current, cell)
            self._pump()

    def _settle(self, op: Op, cell: Cell) -> None:
        if cell.error is not None:
            self._current = None
            self._stop(op, cell.error)
        else:
            self._run(op, cell.value)

    def _run(self, op: Op, value: Any) -> None:
        try:
            done = op.run(self, value)
        except BaseException as error:  # a SystemExit too fails the node, not the event loop
            self.fail(op, error)
            done = True
        if done and self._current is op:
            self._current = None

    # -- failure

    def fail(self, op: Op, cause: BaseException) -> None:
        """`op` failed because of `cause`: the stream stops, the row gets a GenerationError."""
        error = self.wrap(op, cause)
        self.ctx.fail(error, op.order)
        self._stop(op, error)

    def wrap(self, op: Op, cause: BaseException) -> BaseException:
        """`cause` as a GenerationError that names the node."""
        if isinstance(cause, GenerationError):
            return cause
        reason = ""
        if isinstance(cause, GaveUp):
            reason = f" (after {cause.attempts} attempts)"
            cause = cause.error
        error = GenerationError(_reason(cause) + reason, **self.place(op))
        error.__cause__ = cause
        return error

    def place(self, op: Op) -> dict[str, Any]:
        """Keyword arguments of GenerationError that say where `op` stands."""
        return {
            "program": self.scope.program,
            "instance": self.ctx.row,
            "node": op.path(self),
            "source": str(op.source) if op.source else None,
        }

    def _stop(self, op: Op, error: BaseException) -> None:
        self.error = error
        op.skip(self, error)

    def abort(self, error: BaseException) -> None:
        """The row was cancelled: whatever is queued or in flight fails with `error`."""
        self.error = error
        self._started = True
        op, self._current = self._current, None
        if op is not None:
            op.skip(self, error)
        self._pump()

    def is_below(self, root: StreamCore) -> bool:
        """Whether this stream is `root`, or began below it."""
        core: StreamCore | None = self
        while core is not None and core is not root:
            core = core._parent
        return core is not None

    @property
    def begins_program(self) -> bool:
        """Whether this is the stream of a sub-program, which is a place in program order."""
        return self._kind == "c"

    def cut_off(self, error: BaseException) -> list[Op]:
        """Cancel this stream for good, while the row goes on; gives the operation in flight."""
        ops = [self._current] if self._current is not None else []
        self.cut = error
        self.abort(error)
        self.release()
        return ops

    def forget_error(self, error: BaseException) -> None:
        """The program took `error`: operations queued from now on run again."""
        if self.cut is not None:
            return
        if self.error is error or self._queue or not self._started:
            self.push(_Forget(error))

    # -- the backend's side

    def take_stream(self) -> BackendStream:
        """This stream's backend stream with all unsent pieces appended; opens it if need be."""
        if self._backend_stream is None:
            self._backend_stream = open_stream(self.ctx, self._base)
            self._base = None
        if self.prompt.unsent:
            self._backend_stream.append(self.prompt.unsent)
            self.prompt.unsent = []
        return self._backend_stream

    def renew_stream(self) -> None:
        """Leave the backend stream to a call that does not end, and go on with a fork of it."""
        assert self._backend_stream is not None, "no backend stream to renew"
        self._backend_stream = self.ctx.opened(self._backend_stream.fork())

    def hint(self, facts: dict[str, Any]) -> None:
        """Tell the backend what follows, if it has this stream already."""
        if self._backend_stream is not None:
            self._backend_stream.hint(**facts)

    def hint_ahead(self, pieces: list[list[Any]]) -> None:
        """Tell the backend with what the prompt goes on; if that is all there already, nothing."""
        if pieces or self.prompt.unsent or self._backend_stream is None:
            self.take_stream().hint(ahead=pieces)

    def share(self) -> SharedPrefix | None:
        """The prompt so far as a prefix with one more user; None while it is empty."""
        if self._backend_stream is not None or self.prompt.unsent:
            stream, unsent = self._backend_stream, self.prompt.unsent
            self._base = SharedPrefix(self.ctx, self._base, stream, unsent)
            self._backend_stream, self.prompt.unsent = None, []
        return self._base.join() if self._base is not None else None

    def release(self) -> None:
        """Give back the backend stream; the text stays readable."""
        if self._backend_stream is not None:
            self.ctx.closed(self._backend_stream)
            self._backend_stream = None
        if self._base is not None:
            self._base.release()
            self._base = None


def _reason(cause: BaseException) -> str:
    """One line that says what happened; the type is named where sgc did not word the message."""
    words = " ".join(str(cause).split("\n"))
    if isinstance(cause, SgcError | PromptError):
        return words
    return f"{type(cause).__name__}: {words}" if words else type(cause).__name__


class _Forget(Op):
    __slots__ = ("_error",)

    def __init__(self, error: BaseException) -> None:
        super().__init__(None, None, ())
        self._error = error

    def run(self, core: StreamCore, value: Any) -> bool:
        return True

    def skip(self, core: StreamCore, error: BaseException) -> None:
        if core.error is self._error:
            core.error = None


_WAITABLE = (Cell, tuple, list, dict)
