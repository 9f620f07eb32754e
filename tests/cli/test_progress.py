"""The display of a run on a real terminal."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from sgc.live_line import Figure, LiveLine, fitted

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


FIGURES = [
    Figure("12/128 rows", "12/128 rows"),
    Figure("104 tokens/s", "104 tok/s"),
    Figure("hit rate 61 %", "hit 61 %"),
    Figure("12 running", "12 run"),
    Figure("3 waiting", "3 wait"),
]


@pytest.mark.parametrize(
    ("width", "bar", "text"),
    [
        (200, 24, "12/128 rows, 104 tokens/s, hit rate 61 %, 12 running, 3 waiting  0:00:05"),
        (90, 12, "12/128 rows, 104 tokens/s, hit rate 61 %, 12 running, 3 waiting  0:00:05"),
        (72, 0, "12/128 rows, 104 tokens/s, hit rate 61 %, 12 running, 3 waiting  0:00:05"),
        (66, 0, "12/128 rows, 104 tokens/s, hit rate 61 %, 12 running, 3 waiting"),
        (60, 0, "12/128 rows, 104 tok/s, hit 61 %, 12 run, 3 wait  0:00:05"),
        (50, 0, "12/128 rows, 104 tok/s, hit 61 %, 12 run, 3 wait"),
        (40, 0, "12/128 rows, 104 tok/s, hit 61 %, 12 run"),
        (30, 0, "12/128 rows, 104 tok/s"),
        (12, 0, "12/128 rows"),
        (3, 0, "12/128 rows"),
    ],
)
def test_the_line_fits_its_terminal(width: int, bar: int, text: str) -> None:
    assert fitted(FIGURES, "0:00:05", width) == (bar, text)


@pytest.mark.parametrize("columns", [20, 60, 100])
def test_no_row_of_the_line_is_longer_than_the_terminal(columns: int) -> None:
    console = Console(file=io.StringIO(), width=columns, force_terminal=True, color_system=None)
    line = LiveLine(console, 128, transient=False)
    line.show(12, FIGURES[1:])
    line.close()
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.split("\r")[-1]).rstrip("\n")
    assert "12/128 rows" in last
    assert "…" not in last
    assert "\n" not in last
    assert len(last) <= columns
