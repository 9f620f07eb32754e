"""What a finished row (or sub-program) leaves behind: variables, text, messages, value, usage."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from sgc_ir.errors import GenerationError
from sgc_ir.params import Usage
from sgc_runtime.executor.pending import Pending
from sgc_runtime.executor.stream import Stream, is_unnamed


class FinishedState:
    """A finished run. Reading gives what is there; a failed variable raises its error.

    Args:
        stream: the root stream, or None for a row that never began.
        variables: the variables at the end; those of the stream if left out.
        value: the program's return value.
        error: the row's error, or None.
        mode: `compiled` or `interpreted`.
        usage: token counts; those of the whole row if left out.

    Attributes:
        vars: variables that are there, without unnamed ones.
    """

    def __init__(
        self,
        stream: Stream | None,
        *,
        variables: Mapping[str, Pending] | None = None,
        value: Any = None,
        error: BaseException | None = None,
        mode: str = "interpreted",
        usage: Usage | None = None,
    ) -> None:
        self._stream = stream
        if variables is None:
            variables = stream.variables if stream is not None else {}
        self._table = dict(variables)
        self.value = value
        self.mode = mode
        if usage is None:
            usage = stream.ctx.usage if stream is not None else Usage()
        self.usage = usage
        self._error = error

    @classmethod
    def failed(cls, error: BaseException, mode: str = "interpreted") -> FinishedState:
        """The state of a row that was refused before it began."""
        return cls(None, error=error, mode=mode)

    @property
    def vars(self) -> dict[str, Any]:
        """Finished variables in program order, without unnamed ones."""
        return {
            name: pending.value.value
            for name, pending in self._table.items()
            if not is_unnamed(name) and pending.value.done and pending.value.error is None
        }

    def __getitem__(self, name: str) -> Any:
        """Value of a variable. Raises KeyError when it was never set, its error when it failed."""
        if name not in self._table:
            known = ", ".join(repr(n) for n in self._table) or "nothing"
            raise KeyError(f"variable {name!r} is not set; set: {known}")
        return self._table[name].value.result()

    def get(self, name: str, default: Any = None) -> Any:
        """Value of a variable, or `default` when it was never set."""
        return self[name] if name in self._table else default

    def __contains__(self, name: object) -> bool:
        return name in self._table

    def meta(self, name: str) -> Any:
        """Metadata of a variable (`finish_reason`, `scores` ...)."""
        if name not in self._table:
            raise KeyError(f"variable {name!r} is not set")
        return self._table[name].meta.result()

    def text(self) -> str:
        """The whole text of the root stream; up to the failure when the row failed.

        Raises GenerationError when the chat template refuses the turns as they are at the end.
        """
        if self._stream is None:
            return ""
        try:
            return self._stream.current_text()
        except Exception as error:
            if self._error is not None:
                return self._stream.core.prompt.sent_text()
            raise GenerationError(
                f"the chat template cannot render the text: {error}",
                program=self._stream.program,
                instance=self._stream.ctx.row,
                node=self._stream.path,
            ) from error

    def messages(self) -> list[dict[str, Any]]:
        """Role turns of the root stream as plain data."""
        return self._stream.core.prompt.messages() if self._stream is not None else []

    def error(self) -> BaseException | None:
        """The row's error: the first in program order that the program did not take, or None."""
        return self._error

    def __repr__(self) -> str:
        what = f"error={self._error!r}" if self._error is not None else f"value={self.value!r}"
        return f"<FinishedState {what} vars={list(self.vars)}>"


class SubProgramHandle(ABC):
    """What `sub(x)` gives while the row runs."""

    __slots__ = ()

    @abstractmethod
    def state(self) -> FinishedState:
        """The sub-program as a finished state. To be called when all of it has ended."""


def finished(value: Any) -> Any:
    """`value` with each handle inside it replaced by the state of its finished sub-program."""
    if type(value) is str:
        return value
    if isinstance(value, SubProgramHandle):
        return value.state()
    if type(value) in (list, tuple):
        return type(value)([finished(item) for item in value])
    if type(value) is dict:
        return {key: finished(item) for key, item in value.items()}
    return value
