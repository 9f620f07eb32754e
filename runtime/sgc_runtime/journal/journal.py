"""The journal of a run: opened fresh or resumed, and asked for the log of each row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sgc_ir.errors import GenerationError, JournalError
from sgc_runtime.journal.codec import pack
from sgc_runtime.journal.entries import RowBegins
from sgc_runtime.journal.fingerprint import differences
from sgc_runtime.journal.group_commit import GroupCommit
from sgc_runtime.journal.row_log import RowLog, unknown_outcome
from sgc_runtime.journal.store import BEGUN, START_ANEW, TOOL, Line, Node, Store

_FINGERPRINT = "fingerprint"

OnLines = Callable[[Sequence[Line]], None]


class Journal:
    """Made by `create_journal` or `resume_journal`; `start` begins the writing.

    The log of a row is for the event loop, everything else for any thread. All methods raise
    JournalError when the file cannot be read or written; those that write also raise what
    `on_lines` raised.

    Attributes:
        resumed: it holds what an earlier run left.
    """

    def __init__(self, store: Store, resumed: bool) -> None:
        self._store = store
        self._writer: GroupCommit | None = None
        self._admitted: dict[int, tuple[bytes, list[Node]]] = {}
        self.resumed = resumed

    @property
    def path(self) -> Path:
        return self._store.path

    # -- what an earlier run left

    def finished_rows(self) -> int:
        """Rows that finished well."""
        return self._store.counts()[0]

    def last_row(self) -> int:
        """The highest index among rows that began; -1 for none."""
        return self._store.last_row()

    def unknown_outcomes(self) -> list[Node]:
        """Irreversible tools that began and were not recorded as ended."""
        return self._store.begun()

    def decide(self, done: Iterable[tuple[Node, Any]], again: Iterable[Node]) -> None:
        """What became of such tools: the value (plain JSON data) of those that have taken effect,
        and those that have not and run again."""
        ended = [Node(n.row, n.path, TOOL, n.tool, n.digest, pack(value)) for n, value in done]
        with self._store.transaction():
            self._store.add_nodes(ended)
            for node in again:
                self._store.remove_node(node)

    # -- writing

    def start(self, on_lines: OnLines) -> None:
        """Begin to write; rows that failed are open again.

        Args:
            on_lines: called on the writing thread with the lines of rows, once the disk has them.
        """
        if self.resumed:
            self._store.forget_failures()
        self._writer = GroupCommit(self._store, on_lines)

    @property
    def _writing(self) -> GroupCommit:
        assert self._writer is not None, "the journal has not been started"
        return self._writer

    def admit(self, index: int, digest: bytes) -> bool:
        """Note an input row before it begins; False when it has finished in an earlier run.

        Raises JournalError when it was another row then.
        """
        nodes: list[Node] = []
        if self.resumed and (known := self._store.row(index)) is not None:
            if known[0] != digest:
                raise JournalError(
                    f"input row {index} is not what it was when {self.path} was written; give the "
                    f"same inputs, or {START_ANEW}"
                )
            if known[1]:
                return False
            nodes = self._store.nodes(index)
        self._admitted[index] = digest, nodes
        return True

    def begin_row(self, index: int, program: str) -> RowLog:
        """The log of an admitted row, which begins now.

        Raises GenerationError for a row that waits for a decision on a tool of unknown outcome: no
        `except` of the program could take that for an ordinary error.
        """
        digest, nodes = self._admitted.pop(index)
        self._writing.add(RowBegins(index, digest))
        for node in nodes:
            if node.kind == BEGUN:
                raise GenerationError(
                    unknown_outcome(node), program=program, instance=index, node=node.path
                )
        return RowLog(index, program, self._writing, nodes)

    def finish_row(self, index: int, line: str, failed: bool) -> None:
        """Note the output line of a row; waits while the disk cannot follow."""
        self._writing.wait_for_room()
        self._writing.add(Line(index, line, failed))

    def line(self, index: int) -> str | None:
        """The output line of a row, if the file has it."""
        return self._store.line(index)

    def lines(self, first: int, limit: int) -> list[Line]:
        """Output lines of rows from `first` on that the file has, in order, at most `limit`."""
        return self._store.lines(first, limit)

    def check(self) -> None:
        """Raise what ended the writing, if anything did."""
        if self._writing.failure is not None:
            raise self._writing.failure

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until all that was noted is on the disk and `on_lines` has had it, or the writing
        has ended; whether that was so in time."""
        return self._writing.flush(timeout_s)

    def close(self, delete: bool = False) -> None:
        """Write what is left and close the file, or delete it. Does so once."""
        if self._writer is not None:
            self._writer.close()
        self._store.close(delete)


def create_journal(path: Path, fingerprint: Mapping[str, Any]) -> Journal:
    """The journal of a new run.

    Raises JournalError when the file cannot be written, is in use or damaged, or holds finished
    work of another run.
    """
    store = Store.open(path, create=True)
    holds = True
    try:
        holds = store.started
        if holds and (left := _work(store)):
            raise JournalError(
                f"{path} is the journal of a run that has not ended ({left}); go on with it by "
                f"--resume, or {START_ANEW}"
            )
        store.start({_FINGERPRINT: fingerprint})
    except BaseException:
        store.close(delete=not holds)
        raise
    return Journal(store, resumed=False)


def _work(store: Store) -> str:
    rows, nodes = store.counts()
    parts = [f"{rows} rows finished"] if rows else []
    return ", ".join([*parts, f"{nodes} nodes of other rows"] if nodes else parts)


def resume_journal(path: Path, fingerprint: Mapping[str, Any]) -> Journal:
    """The journal of a run that goes on.

    Raises JournalError when there is none, when it is in use or damaged, and when the run was
    another one; then the message says what differs.
    """
    if not path.exists() and not Path(f"{path}-wal").exists():
        raise JournalError(
            f"there is no journal {path}: the run has ended, or it kept none; run without --resume"
        )
    store = Store.open(path, create=False)
    try:
        _check_same(store, fingerprint)
    except BaseException:
        store.close()
        raise
    return Journal(store, resumed=True)


def _check_same(store: Store, fingerprint: Mapping[str, Any]) -> None:
    if not store.started:
        raise JournalError(
            f"{store.path} holds nothing: the run was ended before it began, or the file was moved "
            f"without {store.path.name}-wal; bring that back, or run without --resume"
        )
    store.check()
    found = differences(store.fact(_FINGERPRINT) or {}, fingerprint)
    if found:
        raise JournalError(
            f"{store.path} is of another run: {', '.join(found)}; give what was given then, or "
            f"{START_ANEW}"
        )
