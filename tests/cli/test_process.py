"""`sgc run` with the engine in a process of its own: the same bytes as without."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.cli import Sgc
from support.crash import PYTHONPATH
from support.processes import gone

pytest.importorskip("torch")

PROGRAM = """
import os, signal
from pathlib import Path
import sgc

@sgc.tool(effect="pure")
def strike(name):
    \"\"\"Kills the engine's process, once.\"\"\"
    if name == "Bo" and Path("strike").exists():
        Path("strike").unlink()
        for folder in Path("/proc").glob("[0-9]*"):
            status = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes()
            if int(status[1]) == os.getpid() and b"process_host" in command:
                os.kill(int(folder.name), signal.SIGKILL)
    return name

@sgc.function
def work(s, name: str):
    s += sgc.user(f"Say something about {name}.")
    s += sgc.assistant(sgc.gen("first", max_tokens=6, n=2, stop=["a"]))
    forks = s.fork(2)
    for i, f in enumerate(forks):
        f += f" part {i}" + sgc.gen("part", max_tokens=4, regex="[a-z ]*")
    forks.join()
    s += f" by {sgc.call(strike, name)} is" + sgc.select("good", [" yes", " no"])
    s += sgc.gen("exact", regex="one|two|three", distribution="exact")
    return [s["good"], s["part"], s["exact"]]
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from support.local import tiny_folder

    return tiny_folder(tmp_path_factory.mktemp("model"))


@pytest.fixture
def work(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments of a run over four rows."""
    monkeypatch.chdir(tmp_path)
    Path("work.py").write_text(PROGRAM)
    Path("rows.jsonl").write_text(
        "".join(f'{{"name": "{n}"}}\n' for n in ("Ada", "Bo", "Cy", "Di"))
    )
    local = ["--backend", "local", "--model", str(model), "--dtype", "float32"]
    return ["run", "work.py", "--inputs", "rows.jsonl", "--kv-tokens", "3000", *local]


def children(of: int) -> set[int]:
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = stat.read_text().rpartition(")")[2].split()[1]
        except OSError:  # it has ended meanwhile
            continue
        if int(parent) == of:
            found.add(int(stat.parent.name))
    return found


def test_the_same_bytes_and_numbers(sgc_cli: Sgc, work: list[str]) -> None:
    runs = {}
    for process in ("off", "on"):
        before = children(os.getpid())
        files = ["-o", f"{process}.jsonl", "--stats", f"{process}.json"]
        flags = ["--process", process, "--record", f"{process}.record", "--parallel", "1"]
        result = sgc_cli(*work, *files, *flags)
        assert result.code == 0, result.err
        assert len(children(os.getpid()) - before) == (process == "on")
        runs[process] = Path(f"{process}.jsonl").read_text()
    assert runs["on"] == runs["off"]
    stats = {process: json.loads(Path(f"{process}.json").read_text()) for process in runs}
    assert stats["on"].keys() == stats["off"].keys()
    for name in ("rows", "prompt_tokens", "completion_tokens", "forced_tokens", "scored_tokens"):
        assert stats["on"][name] == stats["off"][name], name
    assert stats["on"]["load_seconds"] > 0
    replayed = sgc_cli(*work[:4], "-o", "replayed.jsonl", "--replay", "on.record")
    assert replayed.code == 0, replayed.err
    assert Path("replayed.jsonl").read_text() == runs["off"]


def test_a_run_whose_engine_was_killed_goes_on(sgc_cli: Sgc, work: list[str]) -> None:
    result = sgc_cli(*work, "-o", "unbroken.jsonl", "--process", "off")
    assert result.code == 0, result.err
    Path("strike").touch()
    result = sgc_cli(*work, "-o", "out.jsonl", "--process", "on", "--parallel", "1")
    assert result.code == 1
    assert "was killed by SIGKILL (perhaps memory ran out); run again" in result.err
    errors = [json.loads(line)["error"] for line in Path("out.jsonl").read_text().splitlines()]
    assert [error is None for error in errors] == [True, False, False, False]
    # What the journal holds is of a model, not of a process.
    result = sgc_cli(*work, "-o", "out.jsonl", "--process", "off", "--resume")
    assert result.code == 0, result.err
    assert Path("out.jsonl").read_text() == Path("unbroken.jsonl").read_text()


LONG = """
import sgc

@sgc.function
def work(s, name: str):
    s += name + sgc.gen("a", max_tokens=900, ignore_eos=True)
    s += sgc.gen("b", max_tokens=900 if name == "Bo" else 1, ignore_eos=True, temperature=9.0)
"""


def test_an_interrupt_ends_both(work: list[str]) -> None:
    Path("work.py").write_text(LONG)
    process = subprocess.Popen(
        [sys.executable, "-m", "sgc", *work, "-o", "out.jsonl", "--process", "on"],
        env={**os.environ, "PYTHONPATH": PYTHONPATH, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        while not (started := children(process.pid)):
            time.sleep(0.05)
        time.sleep(1.0)  # it loads, or is at work
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        begin = time.monotonic()
        _, err = process.communicate(timeout=30)
        assert time.monotonic() - begin < 10
        assert process.returncode == 130
        assert err.splitlines()[-1].startswith("sgc: error: interrupted")
        assert all(gone(child) for child in started)
    finally:
        process.kill()
