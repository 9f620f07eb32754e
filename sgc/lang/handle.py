"""What `sub(x)` gives: a sub-program that runs, to be read like a finished state."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sgc.lang.current import current_driver
from sgc.lang.failures import unset
from sgc.lang.source import caller_source
from sgc_ir.errors import SgcError
from sgc_ir.graph import Source
from sgc_ir.params import Usage
from sgc_runtime.executor.cell import Cell
from sgc_runtime.executor.state import FinishedState, SubProgramHandle, finished

if TYPE_CHECKING:
    from sgc.lang.body import Body
    from sgc.lang.bridge import Bridge
    from sgc.lang.function import ProgramSpec


class Handle(SubProgramHandle):
    """A running sub-program; each read waits until its body has ended.

    Reads raise what the body raised, and the error of the node that they read.
    """

    _sgc_opaque = True

    def __init__(self, body: Body, done: Cell) -> None:
        self._body = body
        self._stream = body.root
        self._done = done

    @property
    def spec(self) -> ProgramSpec:
        """The program that runs."""
        return self._body.spec

    @property
    def value(self) -> Any:
        """The return value."""
        return self._bridge().value(lambda: self._done)

    def __getitem__(self, name: str) -> Any:
        """The last value of a variable. Raises GenerationError when it was never set."""
        return self._read(name, "value", caller_source())

    def meta(self, name: str) -> dict[str, Any]:
        """Facts about the call that wrote a variable."""
        meta: dict[str, Any] = self._read(name, "meta", caller_source())
        return meta

    def get(self, name: str, default: Any = None) -> Any:
        """The last value of a variable, or `default` when it was never set."""
        return self[name] if name in self else default

    def __contains__(self, name: object) -> bool:
        found: bool = self._bridge().value(
            lambda: self._after(lambda: Cell.of(name in self._stream.variables))
        )
        return found

    def text(self) -> str:
        """The whole text."""
        text: str = self._bridge().value(lambda: self._after(self._stream.text))
        return text

    def messages(self) -> list[dict[str, Any]]:
        """The chat turns."""
        turns: list[dict[str, Any]] = self._bridge().value(
            lambda: self._after(self._stream.messages)
        )
        return turns

    def error(self) -> BaseException | None:
        """What failed in the sub-program, or None; waits until all of it has ended."""
        error: BaseException | None = self._bridge().value(
            lambda: self._at_the_end(lambda: self.state().error())
        )
        return error

    @property
    def usage(self) -> Usage:
        """Tokens of the sub-program's own calls; waits until all of it has ended."""
        usage: Usage = self._bridge().value(lambda: self._at_the_end(lambda: self.state().usage))
        return usage

    def state(self) -> FinishedState:
        """The sub-program as a finished state. To be called when all of it has ended."""
        scope = self._stream.scope
        return FinishedState(
            self._stream,
            value=finished(self._done.value),
            error=self._stream.ctx.first_error(scope.prefix) or self._done.error,
            usage=scope.usage,
        )

    def _read(self, name: str, what: str, source: Source) -> Any:
        def find() -> Cell:
            pending = self._stream.get(name)
            if pending is None:
                return Cell.failed(unset(self._stream, name, source))
            return pending.value if what == "value" else pending.meta

        return self._bridge().value(lambda: self._after(find))

    def _after(self, find: Callable[[], Cell]) -> Cell:
        """What `find` gives once the body has ended."""
        cell = Cell()

        def ended(done: Cell) -> None:
            if done.error is not None:
                cell.fail(done.error)
            else:
                find().forward(cell)

        self._done.then(ended)
        return cell

    def _at_the_end(self, find: Callable[[], Any]) -> Cell:
        """What `find` gives once body, branches and sub-programs have ended, well or not."""
        cell = Cell()

        def ended(_: Cell) -> None:
            try:
                cell.set(find())
            except Exception as error:  # else the reader would wait for ever
                cell.fail(error)

        self._body.ended().then(ended)
        return cell

    def _bridge(self) -> Bridge:
        bridge: Bridge | None = getattr(current_driver(), "bridge", None)
        if bridge is None:
            raise SgcError("a sub-program's handle outside of its program; return its values")
        return bridge
