"""The file: locks, and what survives when its last writes are torn."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from sgc_ir.errors import JournalError
from sgc_runtime.journal.store import CALL, Line, Node, Store

NUM_ROWS = 40


def commit(store: Store, row: int) -> None:
    """A row with a node, and the line of the row before it."""
    with store.transaction():
        store.add_rows([(row, bytes([row]))])
        store.add_nodes([Node(row, "g0", CALL, "", b"d", bytes([row]) * 300)])
        if row:
            store.add_lines([Line(row - 1, f"line {row - 1}", False)])


@pytest.fixture(scope="module")
def torn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copies of the files as they lie there while the process is killed."""
    folder = tmp_path_factory.mktemp("store")
    store = Store.open(folder / "j", create=True)
    store.start({"fingerprint": {"a": 1}})
    for row in range(NUM_ROWS):
        commit(store, row)
    (folder / "kept").mkdir()
    for path in folder.glob("j*"):
        shutil.copy(path, folder / "kept")
    store.close()
    return folder / "kept"


def rows_in(path: Path) -> int:
    """Commits that are there; they must be the first ones, each whole."""
    store = Store.open(path, create=False)
    try:
        if not store.started:
            return 0
        store.check()
        assert store.fact("fingerprint") == {"a": 1}
        count = store.last_row() + 1
        for row in range(count - 1):
            assert store.line(row) == f"line {row}"
            assert store.nodes(row) == []
        if count:
            assert store.row(count - 1) == (bytes([count - 1]), False)
            assert store.nodes(count - 1)[0].data == bytes([count - 1]) * 300
        return count
    finally:
        store.close()


def test_all_commits_are_there_after_a_kill(torn: Path, tmp_path: Path) -> None:
    shutil.copytree(torn, tmp_path, dirs_exist_ok=True)
    assert rows_in(tmp_path / "j") == NUM_ROWS


def test_a_log_cut_anywhere_holds_the_first_commits(torn: Path, tmp_path: Path) -> None:
    size = (torn / "j-wal").stat().st_size
    rng = random.Random(0)
    cuts = sorted({0, 1, 31, 32, 33, size - 1, *(rng.randrange(size) for _ in range(80))})
    found = []
    for cut in cuts:
        shutil.copytree(torn, tmp_path / str(cut))
        with open(tmp_path / str(cut) / "j-wal", "r+b") as file:
            file.truncate(cut)
        found.append(rows_in(tmp_path / str(cut) / "j"))
    assert found == sorted(found)
    assert found[0] == 0
    assert len(set(found)) > NUM_ROWS / 2


def test_a_log_with_one_wrong_byte_holds_the_first_commits(torn: Path, tmp_path: Path) -> None:
    size = (torn / "j-wal").stat().st_size
    rng = random.Random(1)
    for at in (rng.randrange(size) for _ in range(60)):
        place = tmp_path / str(at)
        shutil.copytree(torn, place, dirs_exist_ok=True)
        data = bytearray((place / "j-wal").read_bytes())
        data[at] ^= 0x55
        (place / "j-wal").write_bytes(data)
        assert rows_in(place / "j") <= NUM_ROWS


def test_a_damaged_file_is_a_journal_error(torn: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    shutil.copytree(torn, whole)
    Store.open(whole / "j", create=False).close()  # moves the log into the file
    data = (whole / "j").read_bytes()
    rng = random.Random(2)
    refused = 0
    for trial in range(60):
        damaged = bytearray(data)
        at = rng.randrange(len(data))
        damaged[at : at + 200] = rng.randbytes(len(damaged[at : at + 200]))
        path = tmp_path / f"j{trial}"
        path.write_bytes(damaged if trial % 2 else data[:at])
        refused += f"{path} is damaged" in reading(path)
    assert refused > 30


def reading(path: Path) -> str:
    """What is said of a file, "" where it is read to its end, with whatever values."""
    try:
        rows_in(path)
    except JournalError as error:
        return str(error)
    except AssertionError:  # bytes of a value: sqlite has no checksums, a disk has
        return ""
    return ""


def test_one_process_at_a_time(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "j", create=True)
    with pytest.raises(JournalError, match="another run is writing"):
        Store.open(tmp_path / "j", create=True)
    store.close()
    store.close()
    Store.open(tmp_path / "j", create=True).close(delete=True)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_deleted_meanwhile_is_not_taken(tmp_path: Path) -> None:
    first = Store.open(tmp_path / "j", create=True)
    for file in list(tmp_path.iterdir()):  # the log too
        file.unlink()
    second = Store.open(tmp_path / "j", create=True)
    second.start({"fingerprint": 2})
    first.close()
    assert second.fact("fingerprint") == 2
    second.close()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="cannot open"):
        Store.open(tmp_path / "none" / "j", create=True)


def test_failures_say_whether_they_read_or_wrote(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "j", create=True)
    store.start({})
    store._connection.set_progress_handler(lambda: 1, 1)  # sqlite gives up in every statement
    with pytest.raises(JournalError, match=r"cannot read .*/j: interrupted; see that its disk"):
        store.lines(0, 5)
    with pytest.raises(JournalError, match=r"cannot write .*/j: interrupted; make room"):
        store.forget_failures()
    store._connection.set_progress_handler(None, 0)
    store.close()


def test_a_transaction_that_raises_leaves_nothing(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "j", create=True)
    store.start({})

    def broken() -> None:
        with store.transaction():
            store.add_rows([(0, b"d")])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    assert store.row(0) is None
    store.close()


def test_a_log_that_was_left_behind_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "out.journal-wal"
    log.write_bytes(b"what a killed run had finished")
    for create in (True, False):
        with pytest.raises(JournalError, match=r"out\.journal-wal is the rest of a journal"):
            Store.open(tmp_path / "out.journal", create=create)
    assert log.exists()
    assert not (tmp_path / "out.journal").exists()
