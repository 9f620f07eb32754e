"""A variable of a stream that is there already or will be: value, metadata and text pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sgc_runtime.executor.cell import Cell, as_cell

Watcher = Callable[[str, bool], None]


class Pending:
    """What a gen or select gives, or what `set` put into a variable.

    Attributes:
        name: the variable.
        value: the Python value; a list for n > 1.
        meta: plain data: `finish_reason`, `matched`, `complete`, `scores` ...
        text_pieces: pieces of the text that have arrived; all of them once `value` is done.
    """

    __slots__ = ("_path", "_watchers", "meta", "name", "text_pieces", "value")

    def __init__(
        self,
        name: str,
        path: str | Callable[[], str] = "",
        value: Cell | None = None,
        meta: Cell | None = None,
    ) -> None:
        self.name = name
        self._path = path
        self.value = value if value is not None else Cell()
        self.meta = meta if meta is not None else Cell()
        self.text_pieces: list[str] = []
        self._watchers: list[Watcher] | None = None

    @classmethod
    def of(cls, name: str, operand: Any) -> Pending:
        """A variable with a given value, perhaps still pending; its metadata is empty."""
        return cls(name, "", as_cell(operand), Cell.of({}))

    @property
    def path(self) -> str:
        """Dynamic path of the node that writes the variable, "" for `set`."""
        if not isinstance(self._path, str):
            self._path = self._path()
        return self._path

    def locate(self, path: Callable[[], str]) -> None:
        """Say how to tell the node's path when somebody asks."""
        self._path = path

    def add_piece(self, text: str) -> None:
        """A further piece of text has arrived."""
        self.text_pieces.append(text)
        for watcher in self._watchers or ():
            watcher(text, False)

    def restart(self, shown: bool) -> str:
        """The call begins anew. Forgets the pieces, unless they are `shown` already or watched;
        gives the text of those that stay."""
        if not shown and self._watchers is None:
            self.text_pieces.clear()
        return "".join(self.text_pieces)

    def finish(self, value: Any, meta: Any) -> None:
        """Give value and metadata."""
        self.meta.set(meta)
        self.value.set(value)
        self._end()

    def fail(self, error: BaseException) -> None:
        """The node failed or was cancelled."""
        self.meta.fail(error)
        self.value.fail(error)
        self._end()

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher(piece, done)` with what has arrived and with each further piece; at the
        end once with an empty piece and `done`. For a variable that `set` wrote, the one piece is
        the text of its value. Errors are in `value`."""
        if not self.value.done:
            for piece in self.text_pieces:
                watcher(piece, False)
            if self._watchers is None:
                self._watchers = []
                self.value.then(lambda _: self._end())
            self._watchers.append(watcher)
            return
        self._replay(watcher)

    def _replay(self, watcher: Watcher) -> None:
        pieces = self.text_pieces
        if not pieces and self.value.error is None and not self._path:
            pieces = [str(self.value.value)]
        for piece in pieces:
            watcher(piece, False)
        watcher("", True)

    def _end(self) -> None:
        watchers, self._watchers = self._watchers, None
        for watcher in watchers or ():
            if self._path:
                watcher("", True)
            else:
                self._replay(watcher)


def fill_pending(pending: Pending, found: Any) -> None:
    """Give `pending` what was found: the value and metadata of a variable, a value, or a handle."""
    if type(found) is Pending:
        found.value.forward(pending.value)
        found.meta.forward(pending.meta)
    elif isinstance(found, Cell):
        found.forward(pending.value)
        found.then(lambda cell: pending.meta.take(cell if cell.error else Cell.of({})))
    else:
        as_cell(found).forward(pending.value)  # a list may hold Cells
        pending.meta.set({})
