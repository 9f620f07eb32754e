"""The file of `--trace`: whole at any time, appended to behind any cut, small in memory."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest
from support.trace_events import load

from sgc.cli.failure import CommandError
from sgc.cli.trace_file import PROCESSES_A_RUN, TraceFile

MARK = {"name": "sgc run", "ph": "i", "s": "p", "ts": 1, "pid": 1, "tid": 0}
EVENTS = [MARK, *({"ph": "E", "pid": 1, "tid": n, "ts": n, "args": {"x": "}\n]"}} for n in (2, 3))]
MORE = [{"ph": "E", "pid": 7, "tid": 7, "ts": 7}]


def write(path: Path, events: list[dict[str, object]], append: bool = False) -> TraceFile:
    file = TraceFile(path, append)
    file.write(events)
    file.check()
    return file


def test_a_file_goes_on_behind_any_cut(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    write(path, EVENTS).close()
    whole = path.read_bytes()
    assert json.loads(whole) == EVENTS
    for end in range(2, len(whole) + 1):
        path.write_bytes(whole[:end])
        kept = load(path)
        file = write(path, MORE, append=True)
        assert load(path) == kept + MORE
        assert file.first_process == PROCESSES_A_RUN * (MARK in kept)
        file.close()
        assert json.loads(path.read_bytes()) == kept + MORE


def test_without_append_it_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    write(path, EVENTS).close()
    write(path, MORE).close()
    assert json.loads(path.read_bytes()) == MORE


def test_an_empty_one_is_an_array(tmp_path: Path) -> None:
    TraceFile(tmp_path / "t.json").close()
    assert json.loads((tmp_path / "t.json").read_bytes()) == []


def test_nothing_is_kept_in_memory(tmp_path: Path) -> None:
    file = TraceFile(tmp_path / "t.json")
    tracemalloc.start()
    try:
        for _ in range(4_000):
            file.write(EVENTS)
        assert tracemalloc.get_traced_memory()[1] < 400_000
    finally:
        tracemalloc.stop()
    file.close()
    assert (tmp_path / "t.json").stat().st_size > 600_000


def test_a_full_disk_is_said_once_and_writes_no_more() -> None:
    file = TraceFile(Path("/dev/full"))
    file.write(EVENTS)
    with pytest.raises(CommandError, match="cannot write /dev/full"):
        file.check()
    file.write(EVENTS)
    with pytest.raises(CommandError):
        file.close()
    file.close()
