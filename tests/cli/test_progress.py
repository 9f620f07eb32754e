"""The display of a run on a real terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = "import sgc\n@sgc.function\ndef hi(s):\n    return 'hi'\n"


def run_on_terminal(folder: Path, *flags: str) -> str:
    """What a run with all its streams on one terminal shows."""
    (folder / "hi.py").write_text(PROGRAM)
    (folder / "rows.jsonl").write_text("{}\n" * 3)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "sgc", "run", "hi.py", "--inputs", "rows.jsonl", *flags],
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    )
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(ours)
    assert process.wait() == 0
    return shown.decode()


@pytest.mark.parametrize("flags", [(), ("-o", "out.jsonl")])
def test_rows_and_bar_never_share_a_line(tmp_path: Path, flags: tuple[str, ...]) -> None:
    shown = run_on_terminal(tmp_path, *flags)
    assert "programs/s" in shown
    has_bar = "\x1b[" in shown
    assert has_bar == bool(flags)
    rows = [line for line in shown.splitlines() if '"index"' in line]
    assert len(rows) == (0 if flags else 3)
    assert all(line.startswith("{") for line in rows)
