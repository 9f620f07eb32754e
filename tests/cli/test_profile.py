"""`sgc run --profile`: a table on standard error, and a file beside the output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support.cli import Sgc
from support.local import tiny_folder

from sgc_runtime.engine.profile import KINDS, OTHER


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out.jsonl"


def profile_of(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(f"{out}.profile.json").read_text())
    return found


@pytest.mark.parametrize("process", ["on", "off"])
def test_a_profile_is_shown_and_written(
    sgc_cli: Sgc, greet: Path, rows: Path, out: Path, model: Path, process: str
) -> None:
    options = ("--model", model, "--process", process, "--kv-tokens", 2000)
    result = sgc_cli("run", greet, "--inputs", rows, "-o", out, "--profile", *options)
    assert result.code == 0
    found = profile_of(out)
    assert f"{found['steps']} steps on cpu" in result.err
    assert set(found["host"]) <= {*KINDS, OTHER}
    for kind in ("schedule", "prefill", "decode", "sample", "output"):
        assert found["host"][kind]["seconds"] > 0
        assert kind in result.err
    parts = sum(figures["seconds"] for figures in found["host"].values())
    assert parts == pytest.approx(found["seconds"], rel=1e-3)
    assert found["gpu"] is None


def test_quiet_runs_only_write(
    sgc_cli: Sgc, greet: Path, rows: Path, out: Path, model: Path
) -> None:
    options = ("--model", model, "--kv-tokens", 2000, "--quiet")
    result = sgc_cli("run", greet, "--inputs", rows, "-o", out, "--profile", *options)
    assert (result.code, result.err) == (0, "")
    assert profile_of(out)["steps"] > 0


def test_quiet_runs_without_a_file_show_it(
    sgc_cli: Sgc, greet: Path, rows: Path, model: Path
) -> None:
    options = ("--model", model, "--kv-tokens", 2000, "--quiet")
    result = sgc_cli("run", greet, "--inputs", rows, "--profile", *options)
    assert result.code == 0
    assert " steps on cpu" in result.err


def test_a_run_that_ends_by_an_error_has_one(
    sgc_cli: Sgc, greet: Path, out: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--model", model, "--kv-tokens", 2000, "--stats", "/dev/full")
    result = sgc_cli("run", greet, "--arg", "name=Ada", "-o", out, "--profile", *options)
    assert result.code == 2
    assert "cannot write /dev/full" in result.err
    assert profile_of(out)["steps"] > 0


ENDLESS = """
import sgc


@sgc.function
def talk(s):
    while True:
        s += "the fox" + sgc.gen("a", max_tokens=4, ignore_eos=True)
        print(len(s["a"]) and "here", flush=True)
"""


@pytest.mark.parametrize("process", ["on", "off"])
def test_an_interrupted_run_has_one(tmp_path: Path, out: Path, model: Path, process: str) -> None:
    program = tmp_path / "talk.py"
    program.write_text(ENDLESS)
    options = ["--process", process, "--kv-tokens", "2000", "--mode", "interpreted", "--no-journal"]
    command = ["run", program, "-o", out, "--profile", "--model", model, *options]
    running = subprocess.Popen(
        [sys.executable, "-m", "sgc", *map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "here\n"
    begin = time.monotonic()
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=30)
    assert running.returncode == 130
    assert time.monotonic() - begin < 3
    assert profile_of(out)["steps"] > 0
    assert "sgc: error: interrupted" in err.splitlines()[-1]


def test_a_backend_without_a_profile_is_named(
    sgc_cli: Sgc, greet: Path, rows: Path, out: Path
) -> None:
    result = sgc_cli("run", greet, "--inputs", rows, "-o", out, "--profile")
    assert result.code == 0
    assert "no profile: the program's own backend keeps none" in result.err
    assert not Path(f"{out}.profile.json").exists()


def test_other_files_are_not_overwritten(sgc_cli: Sgc, greet: Path, rows: Path, out: Path) -> None:
    options = ("--profile", "--stats", f"{out}.profile.json")
    result = sgc_cli("run", greet, "--inputs", rows, "-o", out, *options)
    assert result.code == 2
    assert "is the statistics" in result.err


def test_a_replay_has_no_profile(sgc_cli: Sgc, greet: Path, rows: Path, out: Path) -> None:
    record = out.with_suffix(".record")
    assert sgc_cli("run", greet, "--inputs", rows, "-o", out, "--record", record).code == 0
    result = sgc_cli("run", greet, "--inputs", rows, "-o", out, "--replay", record, "--profile")
    assert result.code == 2
    assert "--profile together with --replay" in result.err
