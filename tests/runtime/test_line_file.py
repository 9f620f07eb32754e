"""Files that grow by whole lines, also where the disk is full."""

from __future__ import annotations

import errno
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sgc_runtime.line_file import LineFile, cut_torn_line


@contextmanager
def little_room() -> Iterator[None]:
    """No file of this process grows beyond 1,000 bytes; its log must not, either, so the limit
    stands around single writes only."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("mode", ["w", "a"])
def test_a_write_that_fails_leaves_nothing(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "f"
    path.write_text("before\n")
    file = LineFile(path, mode)  # type: ignore[arg-type]
    file.write("é\n" * 200)
    with little_room(), pytest.raises(OSError) as info:
        file.write("x" * 600 + "\n")
    assert info.value.errno == errno.EFBIG
    file.write("last\n")
    file.sync()
    file.close()
    assert path.read_text() == ("before\n" if mode == "a" else "") + "é\n" * 200 + "last\n"


@pytest.mark.parametrize("kept", ["", "one\n", "one\ntwo\n", "x" * 70000 + "\n"])
@pytest.mark.parametrize("torn", ["", "t", "t" * 200_000])
def test_a_torn_line_is_cut(tmp_path: Path, kept: str, torn: str) -> None:
    path = tmp_path / "f"
    path.write_text(kept + torn)
    cut_torn_line(path)
    assert path.read_text() == kept


def test_a_device_takes_lines_too() -> None:
    file = LineFile("/dev/null", "w")
    file.write("gone\n")
    file.close()
