"""The journal's file: an sqlite database in write-ahead mode, and what is in it.

    facts  what run this is: its fingerprint
    rows   index, digest of the input row, and its output line once it has finished
    nodes  finished model calls and tools of rows that have not finished well, and irreversible
           tools that have begun

A commit is on the disk when it returns (`synchronous=FULL`). One process has the file at a time.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any

from sgc_ir.errors import JournalError
from sgc_runtime.journal.file_lock import FileLock

_MAGIC = b"SQLite format 3\0"
_APPLICATION = 0x7367636A  # "sgcj"
_VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rows (
    row INTEGER PRIMARY KEY, digest BLOB NOT NULL, line TEXT, failed INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS nodes (
    row INTEGER NOT NULL, path TEXT NOT NULL, kind TEXT NOT NULL, tool TEXT NOT NULL,
    digest BLOB NOT NULL, data BLOB, PRIMARY KEY (row, path)
) WITHOUT ROWID;
"""
START_ANEW = "move it away to start the run anew"
_GO_ON = "make room, then go on with --resume"
_READ_AGAIN = "see that its disk is there and works, then go on with --resume"
_BEGIN_ELSEWHERE = "make room, or give another --output or --no-journal"
CALL, TOOL, BEGUN = "call", "tool", "begun"  # kinds of nodes; BEGUN: a tool without an end


@dataclass(frozen=True, slots=True)
class Node:
    """One entry of `nodes`; `tool` is empty for model calls, `data` None for BEGUN."""

    row: int
    path: str
    kind: str
    tool: str
    digest: bytes
    data: bytes | None


@dataclass(frozen=True, slots=True)
class Line:
    """The output line of a finished row."""

    row: int
    text: str
    failed: bool


class Store:
    """Reads and writes the file; safe to use from several threads.

    Every method raises JournalError when the file cannot be read or written.
    """

    def __init__(self, path: Path, lock: FileLock, connection: sqlite3.Connection) -> None:
        self.path = path
        self._lock = lock
        self._connection = connection
        self._mutex = RLock()
        self._closed = False

    @classmethod
    def open(cls, path: Path, create: bool) -> Store:
        """The store at `path`, which is made when `create` and it is not there.

        Raises JournalError for a file that is missing, in use by another run, damaged, or
        something else than a journal of this version.
        """
        _check_whole(path)
        lock = _locked(path, create)
        begin = b"?"
        try:
            begin = lock.begin(len(_MAGIC))
            if begin and begin != _MAGIC:
                raise JournalError(f"{path} is damaged or no journal; {START_ANEW}")
            with _explained(path, _BEGIN_ELSEWHERE):
                return cls(path, lock, _connect(path))
        except BaseException:
            if create and not begin and not Path(f"{path}-wal").exists():
                path.unlink(missing_ok=True)  # just made, or as empty as if it were
            lock.release()
            raise

    # -- reading

    @property
    def started(self) -> bool:
        """Whether it is the journal of a run; not so where one was killed before it began."""
        return bool(self._all("SELECT count(*) FROM sqlite_master")[0][0])

    def fact(self, name: str) -> Any:
        """A fact about the run, or None."""
        found = self._all("SELECT value FROM facts WHERE name = ?", (name,))
        return json.loads(found[0][0]) if found else None

    def check(self) -> None:
        """Raise JournalError if the file is damaged."""
        (found,) = self._all("PRAGMA quick_check(1)")[0]
        if found != "ok":
            raise JournalError(f"{self.path} is damaged; {START_ANEW}")

    def row(self, index: int) -> tuple[bytes, bool] | None:
        """Digest of row `index`, and whether it has finished; None before it began."""
        found = self._all("SELECT digest, line IS NOT NULL FROM rows WHERE row = ?", (index,))
        return (found[0][0], bool(found[0][1])) if found else None

    def nodes(self, index: int) -> list[Node]:
        """Entries of row `index`."""
        return [Node(*f) for f in self._all("SELECT * FROM nodes WHERE row = ?", (index,))]

    def begun(self) -> list[Node]:
        """All irreversible tools that have begun and not ended."""
        return [Node(*f) for f in self._all("SELECT * FROM nodes WHERE kind = ?", (BEGUN,))]

    def line(self, index: int) -> str | None:
        """The output line of row `index`, or None."""
        found = self._all("SELECT line FROM rows WHERE row = ?", (index,))
        return found[0][0] if found else None

    def lines(self, first: int, limit: int) -> list[Line]:
        """Lines of finished rows from `first` on, in order, `limit` of them at most."""
        query = (
            "SELECT row, line, failed FROM rows WHERE row >= ? AND line IS NOT NULL "
            "ORDER BY row LIMIT ?"
        )
        return [Line(row, text, bool(f)) for row, text, f in self._all(query, (first, limit))]

    def counts(self) -> tuple[int, int]:
        """Rows that finished well, and entries of nodes."""
        query = (
            "SELECT (SELECT count(*) FROM rows WHERE line IS NOT NULL AND NOT failed), "
            "(SELECT count(*) FROM nodes)"
        )
        rows, nodes = self._all(query)[0]
        return rows, nodes

    def last_row(self) -> int:
        """The highest index among rows that began; -1 for none."""
        return int(self._all("SELECT coalesce(max(row), -1) FROM rows")[0][0])

    # -- writing

    def start(self, facts: Mapping[str, Any]) -> None:
        """Make this the journal of a new run; what was in it is dropped."""
        with self.transaction(_BEGIN_ELSEWHERE):
            for statement in _SCHEMA.split(";"):
                self._run(statement)
            for table in ("facts", "rows", "nodes"):
                self._run(f"DELETE FROM {table}")
            for name, value in facts.items():
                self._run("INSERT INTO facts VALUES (?, ?)", (name, json.dumps(value)))
            self._run(f"PRAGMA application_id = {_APPLICATION}")
            self._run(f"PRAGMA user_version = {_VERSION}")
        sync_folder(self.path)

    def forget_failures(self) -> None:
        """Rows that failed have no line any more: they run again."""
        with self.transaction():
            self._run("UPDATE rows SET line = NULL, failed = 0 WHERE failed")

    def add_rows(self, rows: Iterable[tuple[int, bytes]]) -> None:
        """Rows that begin: index and digest. Inside a `transaction`, as all that follow."""
        self._many("INSERT INTO rows (row, digest) VALUES (?, ?) ON CONFLICT DO NOTHING", rows)

    def add_nodes(self, nodes: Iterable[Node]) -> None:
        """Set entries of nodes."""
        values = ((n.row, n.path, n.kind, n.tool, n.digest, n.data) for n in nodes)
        self._many("INSERT OR REPLACE INTO nodes VALUES (?, ?, ?, ?, ?, ?)", values)

    def remove_node(self, node: Node) -> None:
        """Drop an entry."""
        self._run("DELETE FROM nodes WHERE row = ? AND path = ?", (node.row, node.path))

    def add_lines(self, lines: Iterable[Line]) -> None:
        """Rows that finish. Entries of nodes are dropped where the row finished well."""
        lines = list(lines)
        values = ((n.text, n.failed, n.row) for n in lines)
        self._many("UPDATE rows SET line = ?, failed = ? WHERE row = ?", values)
        good = ((n.row,) for n in lines if not n.failed)
        self._many("DELETE FROM nodes WHERE row = ?", good)

    @contextmanager
    def transaction(self, advice: str = _GO_ON) -> Iterator[None]:
        """All or nothing; on the disk when the block has ended."""
        with self._mutex, _explained(self.path, advice):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def close(self, delete: bool = False) -> None:
        """Close the file, and remove it when `delete`; others may have it. Does so once."""
        with self._mutex, _explained(self.path):
            if self._closed:
                return
            self._closed = True
            try:
                self._connection.close()  # takes the write-ahead log away if it can be moved over
                if delete:
                    self._remove()
            finally:
                self._lock.release()

    def _remove(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        sync_folder(self.path)

    def _all(self, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
        with self._mutex, _explained(self.path, _READ_AGAIN, "read"):
            return self._connection.execute(query, values).fetchall()

    def _run(self, statement: str, values: tuple[Any, ...] = ()) -> None:
        self._connection.execute(statement, values)

    def _many(self, statement: str, values: Iterable[tuple[Any, ...]]) -> None:
        self._connection.executemany(statement, values)


def _check_whole(path: Path) -> None:
    """Raise JournalError where a write-ahead log was left behind: sqlite would delete it."""
    log = Path(f"{path}-wal")
    if log.exists() and not path.exists():
        raise JournalError(
            f"{log} is the rest of a journal that was moved without it; move it along, or delete "
            "it if that run is of no use any more"
        )


def _locked(path: Path, create: bool) -> FileLock:
    try:
        return FileLock.take(path, create)
    except BlockingIOError:
        raise JournalError(
            f"another run is writing {path}; wait for it, or give another --output"
        ) from None
    except OSError as error:
        reason = error.strerror or error
        raise JournalError(f"cannot open {path}: {reason}; {_BEGIN_ELSEWHERE}") from error


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        # Exclusive: no shared memory beside the file, so that network folders will do too.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        _check_kind(path, connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_kind(path: Path, connection: sqlite3.Connection) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not tables:
        return  # killed before its first commit
    if application != _APPLICATION:
        raise JournalError(f"{path} is no journal; {START_ANEW}")
    if version != _VERSION:
        raise JournalError(
            f"{path} is a journal of format {version}, this sgc has format {_VERSION}; "
            "go on with the sgc that wrote it, or " + START_ANEW
        )


@contextmanager
def _explained(path: Path, advice: str = _GO_ON, doing: str = "write") -> Iterator[None]:
    """Turn what sqlite and the file system raise into a JournalError."""
    try:
        yield
    except sqlite3.OperationalError as error:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith("SQLITE_CORRUPT") or "no such" in str(error):
            raise JournalError(f"{path} is damaged ({error}); {START_ANEW}") from error
        raise JournalError(f"cannot {doing} {path}: {error}; {advice}") from error
    except sqlite3.DatabaseError as error:
        raise JournalError(f"{path} is damaged ({error}); {START_ANEW}") from error
    except OSError as error:
        reason = error.strerror or error
        raise JournalError(f"cannot {doing} {path}: {reason}; {advice}") from error


def sync_folder(path: Path) -> None:
    """Bring the names of the folder that holds `path` to the disk."""
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
