"""Operations of a stream that need no model: text, roles, media, forks, joins, readings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sgc_runtime.executor.backend import Media
from sgc_runtime.executor.cell import Cell
from sgc_runtime.executor.core import Op, StreamCore
from sgc_runtime.executor.lifetimes import chars_of, note_said
from sgc_runtime.executor.prompt import Begin, End, Part, Prompt, PromptError
from sgc_runtime.executor.scope import Order
from sgc_runtime.executor.shared_prefix import SharedPrefix


class AppendText(Op):
    """Text at the end of the prompt; other values as their `str()`."""

    __slots__ = ()

    def run(self, core: StreamCore, value: Any) -> bool:
        core.prompt.add_text(value if isinstance(value, str) else str(value))
        return True


class AppendLater(AppendText):
    """Text that is waited for, of which the begin may be known before; see `Op.lead`."""

    __slots__ = ("_lead",)

    def __init__(self, op: AppendText, lead: Sequence[Any]) -> None:
        super().__init__(op.operand, op.source, op.order)
        self._lead = lead

    @property
    def lead(self) -> Sequence[Any]:
        return self._lead


class RoleBegin(Op):
    """Opens a role turn; the operand is the role."""

    __slots__ = ()

    def run(self, core: StreamCore, value: Any) -> bool:
        core.prompt.add(Begin(value))
        return True

    def skip(self, core: StreamCore, error: BaseException) -> None:
        core.suppressed_roles += 1


class RoleEnd(Op):
    """Closes the open role turn, also in a stream that has failed inside of it."""

    __slots__ = ()

    def run(self, core: StreamCore, value: Any) -> bool:
        if core.suppressed_roles:
            core.suppressed_roles -= 1
            return True
        core.prompt.add(End())
        if core.prompt.has_generated_turn:
            core.prompt.check_closed(core.ctx.template)
        return True

    def skip(self, core: StreamCore, error: BaseException) -> None:
        if core.suppressed_roles:
            core.suppressed_roles -= 1
        elif core.prompt.open_turn is not None:
            core.prompt.add(End())


class AppendMedia(Op):
    """An image or video; the operand is its kind, data and number of frames."""

    __slots__ = ()

    def run(self, core: StreamCore, value: Any) -> bool:
        kind, data, num_frames = value
        core.prompt.add(Part(Media(kind, data, num_frames or 0)))
        return True


class ForkPoint(Op):
    """A place in a stream from which branches start, now or later."""

    __slots__ = ("_base", "_chars", "_error", "_open", "_prompt", "_waiting")

    def __init__(self, source: Any, order: Order) -> None:
        super().__init__(None, source, order)
        self._prompt: Prompt | None = None
        self._base: SharedPrefix | None = None
        self._error: BaseException | None = None
        self._waiting: list[StreamCore] = []
        self._open = True
        self._chars = 0

    def attach(self, branch: StreamCore) -> None:
        """Start `branch` here, as soon as the parent gets here."""
        if self._prompt is None:
            self._waiting.append(branch)
        else:
            self._start(branch)

    def close(self) -> None:
        """No further branch will come."""
        self._open = False
        self._prompt = None
        if self._base is not None:
            self._base.release()
            self._base = None

    def run(self, core: StreamCore, value: Any) -> bool:
        self._prompt = core.prompt.copy() if self._open else core.prompt
        self._base = core.share()
        if core.ctx.tells:
            self._chars = chars_of(core)
            note_said(core)
        waiting, self._waiting = self._waiting, []
        for branch in waiting:
            self._start(branch)
        if not self._open:
            self.close()
        return True

    def skip(self, core: StreamCore, error: BaseException) -> None:
        self._error = error
        self.run(core, None)

    def _start(self, branch: StreamCore) -> None:
        assert self._prompt is not None
        branch.fork_chars = self._chars
        base = self._base.join() if self._base is not None else None
        branch.start(self._prompt.copy(), base, self._error)


class AppendBranches(Op):
    """`join("append")`: what each branch said since the fork, in order."""

    __slots__ = ()

    def run(self, core: StreamCore, value: Any) -> bool:
        branches: list[StreamCore] = value
        for branch in branches:
            before = core.prompt.open_turn
            for entry in branch.prompt.log:
                core.prompt.add(entry)
            if core.prompt.open_turn is not before:
                raise PromptError(f"branch {branch.path} is joined inside a role; close the role")
        return True


class Reading(Op):
    """A look at the stream when everything before it is done; `cell` gets what was seen."""

    __slots__ = ("cell", "what")

    def __init__(self, what: str, source: Any, order: Order) -> None:
        super().__init__(None, source, order)
        self.what = what
        self.cell = Cell()

    def run(self, core: StreamCore, value: Any) -> bool:
        if self.what == "messages":
            self.cell.set(core.prompt.messages())
        elif self.what == "drained":
            self.cell.set(None)
        elif not core.prompt.needs_template:
            self.cell.set(core.prompt.text(core.ctx.template))
        else:
            core.ctx.template_ready().then(lambda ready: self._render(core, ready))
            return False
        return True

    def _render(self, core: StreamCore, ready: Cell) -> None:
        if not core.in_flight(self):
            return
        try:
            ready.result()
            self.cell.set(core.prompt.text(core.ctx.template))
        except Exception as error:
            core.fail(self, error)
        core.resume(self)

    def skip(self, core: StreamCore, error: BaseException) -> None:
        self.cell.fail(error)


class Release(Op):
    """The stream's last operation: gives the backend stream back."""

    __slots__ = ()

    def run(self, core: StreamCore, value: Any) -> bool:
        core.release()
        return True

    def skip(self, core: StreamCore, error: BaseException) -> None:
        core.release()


class Hint(Op):
    """Facts about what follows; the operand is a dict. Nothing depends on it."""

    __slots__ = ()

    def run(self, core: StreamCore, value: Any) -> bool:
        core.hint(value)
        return True
