"""Values of nodes that may not have been started yet."""

from __future__ import annotations

from typing import Any

from sgc_ir.errors import SgcError
from sgc_runtime.executor.pending import Pending, fill_pending

_ABSENT: Any = object()  # the place of a value of which nothing is known and that nobody asked for


class NotReached(SgcError):
    """What a value fails with whose node is dead; the row has failed elsewhere."""


class LateValues(list[Any]):
    """Values by node; one that is not there yet, and is asked for, is a placeholder."""

    __slots__ = ()

    def __init__(self, count: int) -> None:
        super().__init__([_ABSENT] * count)

    def __getitem__(self, at: Any) -> Any:
        found = list.__getitem__(self, at)
        if found is _ABSENT:
            found = self[at] = Pending("")
        return found

    def known(self, at: int) -> Any:
        """What is there now."""
        return list.__getitem__(self, at)

    def put(self, at: int, value: Any) -> None:
        """The node has been started, or will not run."""
        placeholder = list.__getitem__(self, at)
        self[at] = value
        if placeholder is not _ABSENT:
            fill_pending(placeholder, value)


def failed_variable(name: str, error: BaseException) -> Pending:
    """A variable that will not be there because of `error`."""
    pending = Pending(name)
    pending.fail(error)
    return pending
