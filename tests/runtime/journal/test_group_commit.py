"""The writing thread holds back who is faster than the disk."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from sgc_ir.errors import JournalError
from sgc_runtime.journal import group_commit
from sgc_runtime.journal.group_commit import GroupCommit
from sgc_runtime.journal.store import Line, Store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(group_commit, "MAX_WAITING", 5)
    store = Store.open(tmp_path / "j", create=True)
    store.start({})
    yield store
    store.close()


class Disk:
    """Where lines go: the writing thread stays there until `go_on`."""

    def __init__(self, error: Exception | None = None) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()
        self.error = error
        self.rows: list[int] = []

    def take(self, lines: Sequence[Line]) -> None:
        self.rows += [line.row for line in lines]
        self.reached.set()
        assert self.go_on.wait(30)
        if self.error is not None:
            raise self.error


def waiting(writer: GroupCommit, disk: Disk) -> tuple[threading.Thread, list[object]]:
    """A thread that waits for room while more entries wait than may; what ended its wait."""
    writer.add(Line(0, "first", False))
    assert disk.reached.wait(30)
    for row in range(1, 8):
        writer.add(Line(row, "more", False))
    ends: list[object] = []

    def wait() -> None:
        try:
            writer.wait_for_room()
            ends.append(None)
        except JournalError as error:
            ends.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join(0.1)
    assert thread.is_alive()
    return thread, ends


def test_who_is_too_fast_waits_until_entries_are_written(store: Store) -> None:
    disk = Disk()
    writer = GroupCommit(store, disk.take)
    writer.wait_for_room()  # there is room
    thread, ends = waiting(writer, disk)
    disk.go_on.set()
    thread.join(30)
    assert ends == [None]
    writer.close()
    assert disk.rows == list(range(8))


def test_who_waits_hears_that_nothing_is_written_any_more(store: Store) -> None:
    disk = Disk(JournalError("the disk is gone"))
    writer = GroupCommit(store, disk.take)
    thread, ends = waiting(writer, disk)
    disk.go_on.set()
    thread.join(30)
    assert [str(end) for end in ends] == ["the disk is gone"]
    writer.close()
