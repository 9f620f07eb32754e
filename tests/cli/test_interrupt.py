"""Ctrl-C on real processes: the end comes in time, and finished rows are on the disk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from sgc.cli.main import main

LIMIT_S = 2.0
HEAD = """
import time
import sgc
from sgc.testing import ScriptedBackend

def reply(prompt, params):
    with open("asked", "a") as file:
        file.write(prompt + "\\n")
    return " done\\n"

sgc.set_default_backend(
    ScriptedBackend(reply, delay=lambda p: 60.0 if "slow" in p else 0.0)
)
"""
PROGRAM = """
@sgc.function
def work(s, kind: str):
    s += f"{kind}:" + sgc.gen("a", stop="\\n")
    return s["a"]
"""
BUSY = """
@sgc.function
def work(s, kind: str):
    s += f"{kind}:" + sgc.gen("a", stop="\\n")
    while kind == "slow" and s["a"] != "x":
        sum(range(1000))
    return s["a"]
"""
TOOL = """
@sgc.tool(effect="repeatable")
def nap(kind):
    time.sleep(60 if kind == "slow" else 0)
    return kind

@sgc.function
def work(s, kind: str):
    s += f"{sgc.call(nap, kind)}:" + sgc.gen("a", stop="\\n")
    return s["a"]
"""


def start(tmp_path: Path, text: str, *flags: str) -> subprocess.Popen[str]:
    (tmp_path / "work.py").write_text(HEAD.replace('"slow" in p', WHEN[text]) + text)
    kinds = ["fast", "slow", "fast", "fast", "slow", "fast"]
    rows = "".join(json.dumps({"kind": kind}) + "\n" for kind in kinds)
    (tmp_path / "rows.jsonl").write_text(rows)
    command = ["run", "work.py", "--inputs", "rows.jsonl", "-o", "out.jsonl", *flags]
    return subprocess.Popen(
        [sys.executable, "-m", "sgc", *command],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


WHEN = {PROGRAM: '"slow" in p', BUSY: "False", TOOL: "False"}


def wait_for(path: Path, word: str, times: int) -> None:
    for _ in range(1200):
        if path.exists() and path.read_text().count(word) >= times:
            return
        time.sleep(0.05)
    raise AssertionError(f"{path.name} never held {times} times {word}")


def interrupt(process: subprocess.Popen[str]) -> tuple[float, str]:
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.wait(timeout=30)
    assert process.stderr is not None
    return time.monotonic() - begin, process.stderr.read()


@pytest.mark.parametrize(
    ("text", "mode"),
    [(PROGRAM, "compiled"), (PROGRAM, "interpreted"), (BUSY, "interpreted"), (TOOL, "compiled")],
    ids=["compiled", "interpreted", "busy body", "tool"],
)
def test_interrupt_keeps_what_is_finished(tmp_path: Path, text: str, mode: str) -> None:
    process = start(tmp_path, text, "--mode", mode)
    out = tmp_path / "out.jsonl"
    wait_for(out, "\n", 1)
    wait_for(tmp_path / "asked", "fast", 4)
    time.sleep(0.5)  # the last of them only has to be put down
    assert [json.loads(line)["index"] for line in out.read_text().splitlines()] == [0]
    seconds, err = interrupt(process)
    assert process.returncode == 130
    assert seconds < LIMIT_S
    assert err.splitlines()[-1] == (
        "sgc: error: interrupted; 4 rows had finished and are in out.jsonl; go on with --resume"
    )
    assert [json.loads(line)["index"] for line in out.read_text().splitlines()] == [0, 2, 3, 5]


def started(folder: Path) -> subprocess.Popen[str]:
    """A run of work.py that has got to where it says so."""
    process = subprocess.Popen(
        [sys.executable, "-m", "sgc", "run", "work.py"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    return process


def test_interrupt_while_a_program_file_runs(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text("import time\nprint('here', flush=True)\ntime.sleep(60)\n")
    process = started(tmp_path)
    seconds, err = interrupt(process)
    assert (process.returncode, err) == (130, "sgc: error: interrupted\n")
    assert seconds < LIMIT_S


def test_interrupt_in_a_call_that_python_cannot_leave(tmp_path: Path) -> None:
    # One bytecode of many seconds, in which no signal handler runs; the watchdog ends it.
    (tmp_path / "work.py").write_text(
        "import hashlib\nprint('here', flush=True)\n"
        "hashlib.pbkdf2_hmac('sha256', b'a', b'b', 200_000_000)\n"
    )
    process = started(tmp_path)
    time.sleep(0.2)
    seconds, err = interrupt(process)
    assert (process.returncode, err) == (130, "sgc: error: interrupted\n")
    assert seconds < LIMIT_S


def test_interrupt_while_standard_input_is_open(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(HEAD + PROGRAM)
    process = subprocess.Popen(
        [sys.executable, "-m", "sgc", "run", "work.py", "--inputs", "-"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write('{"kind": "fast"}\n')
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["value"] == " done"  # not held back for more rows
    seconds, _ = interrupt(process)
    assert process.returncode == 130
    assert seconds < LIMIT_S


def test_interrupt_while_the_command_loads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loading = ModuleType("sgc.cli.group")

    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    loading.__dict__["__getattr__"] = interrupted
    monkeypatch.setitem(sys.modules, "sgc.cli.group", loading)
    assert main(["--version"]) == 130
    assert capsys.readouterr().err == "sgc: error: interrupted\n"
