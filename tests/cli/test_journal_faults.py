"""Full disks, interrupts, two runs at once, and journals whose last writes were torn."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.crash import HEAD, PYTHONPATH, Crashes

PROGRAM = """
@sgc.function
def work(s, name: str, size: int):
    s += f"{name}:" + sgc.gen("a", max_tokens=9)
    s += " and " + sgc.gen("b", max_tokens=9)
    return [s["a"]] * 20
"""


class Runs(Crashes):
    """Runs of a program without tools."""

    def __post_init__(self) -> None:
        super().__post_init__()
        (self.folder / "work.py").write_text(HEAD + PROGRAM)

    def start(self, *flags: str, limit: int | None = None, **environ: str) -> subprocess.Popen[str]:
        def set_limit() -> None:
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

        arguments = ["run", "work.py", "--inputs", "rows.jsonl", "-o", "out.jsonl", "--quiet"]
        return subprocess.Popen(
            [sys.executable, "-m", "sgc", *arguments, *flags],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": PYTHONPATH, **environ},
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=set_limit,
        )

    def end(self, process: subprocess.Popen[str]) -> str:
        _, err = process.communicate(timeout=60)
        return err

    def resume(self) -> None:
        """Go on, or begin anew where nothing was kept; all rows must be good then."""
        process = self.start(*(["--resume"] if self.has_run() else []))
        assert (self.end(process), process.returncode) == ("", 0)
        assert not list(self.folder.glob("*.journal*"))


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    runs = Runs(tmp_path_factory.mktemp("unbroken"), "compiled", num_rows=120)
    runs.resume()
    return runs.output


def whole_lines(data: bytes) -> list[bytes]:
    assert data.endswith(b"\n") or not data
    return data.splitlines()


# Bytes that a file may have: the journal cannot begin, cannot grow, the output cannot grow.
@pytest.mark.parametrize("limit", [0, 30_000, 60_000])
def test_files_that_cannot_grow(tmp_path: Path, unbroken: bytes, limit: int) -> None:
    runs = Runs(tmp_path, "compiled", num_rows=120)
    process = runs.start(limit=limit)
    (line,) = runs.end(process).splitlines()
    assert process.returncode == 2
    assert line.startswith(("sgc: error: cannot write out.jsonl", "sgc: error: cannot open"))
    assert runs.journal.exists() == bool(limit)
    check_kept_and_resume(runs, unbroken)


def check_kept_and_resume(runs: Runs, unbroken: bytes) -> None:
    kept = set(whole_lines(runs.output)) if (runs.folder / "out.jsonl").exists() else set()
    assert kept <= set(unbroken.splitlines())
    runs.resume()
    assert runs.output == unbroken


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=160k", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize("room", [12_000, 40_000, 90_000])
def test_a_full_disk(small_disk: Path, unbroken: bytes, room: int) -> None:
    runs = Runs(small_disk, "compiled", num_rows=120)
    free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * (free - room))
    process = runs.start(PYTHONDONTWRITEBYTECODE="1")
    err = runs.end(process).splitlines()
    assert process.returncode == 2, err
    assert len(err) == 1
    assert "out.jsonl" in err[0]
    ballast.unlink()
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    check_kept_and_resume(runs, unbroken)


def wait_until(condition: object, what: str) -> None:
    for _ in range(600):
        if condition():  # type: ignore[operator]
            return
        time.sleep(0.05)
    raise AssertionError(f"waited in vain: {what}")


def slow(runs: Runs) -> None:
    """The first row never ends while there is a file `slow`."""
    program = (runs.folder / "work.py").read_text()
    wait = "60 if os.path.exists('slow') and 'row0:' in prompt else"
    (runs.folder / "work.py").write_text(
        program.replace("return number(", f"return {wait} number(")
    )
    (runs.folder / "slow").touch()


def test_an_interrupted_run_resumes(tmp_path: Path, unbroken: bytes) -> None:
    runs = Runs(tmp_path, "compiled", num_rows=120)
    slow(runs)
    process = runs.start()
    wait_until(lambda: runs.journal.exists() and lines_of(runs) > 50, "fifty rows")
    process.send_signal(signal.SIGINT)
    assert runs.end(process).endswith("out.jsonl; go on with --resume\n")
    assert process.returncode == 130
    indices = [json.loads(line)["index"] for line in whole_lines(runs.output)]
    assert len(indices) > 50
    assert indices == sorted(indices)
    assert 0 not in indices
    (tmp_path / "slow").unlink()
    runs.resume()
    assert runs.output == unbroken


def test_a_run_is_interrupted_again_and_again(tmp_path: Path, unbroken: bytes) -> None:
    runs = Runs(tmp_path, "interpreted", num_rows=120)
    program = (tmp_path / "work.py").read_text()
    (tmp_path / "work.py").write_text(
        program.replace("% 8 / 1000", '% 8 / int(os.environ["PACE"])')
    )
    flags, before = ["--parallel", "4"], 0
    for _ in range(3):
        process = runs.start(*flags, PACE="50")
        wait_until(lambda: written(runs) > before + 3, "more rows")  # noqa: B023
        process.send_signal(signal.SIGINT)
        err = runs.end(process)
        assert process.returncode == 130
        before = written(runs)
        assert f"; {before} rows had finished and are in out.jsonl; go on" in err
        assert set(whole_lines(runs.output)) < set(unbroken.splitlines())
        flags = ["--resume", "--parallel", "4"]
    process = runs.start("--resume", PACE="1000")
    assert (runs.end(process), process.returncode) == ("", 0)
    assert runs.output == unbroken


def written(runs: Runs) -> int:
    """Rows in the output."""
    return runs.output.count(b"\n") if (runs.folder / "out.jsonl").exists() else 0


# The process ends by SIGKILL before or after one of the steps by which a resumed run puts its
# output in place, and before or after the end of its journal.
STEPS = """
import pathlib
from sgc_runtime.line_file import LineFile

def watched(owner, name):
    call, count = getattr(owner, name), itertools.count()
    def step(*args, **options):
        number = next(count)
        if os.environ.get("KILL_STEP") == f"before {name} {number}":
            die()
        result = call(*args, **options)
        if os.environ.get("KILL_STEP") == f"after {name} {number}":
            die()
        return result
    setattr(owner, name, step)

watched(LineFile, "write")
watched(os, "replace")
watched(pathlib.Path, "unlink")
"""


@pytest.mark.parametrize(
    "step", ["after write 0", "before replace 0", "after replace 0", "after unlink 1"]
)
def test_a_resumed_run_that_is_killed_loses_nothing(
    tmp_path: Path, unbroken: bytes, step: str
) -> None:
    runs = Runs(tmp_path, "compiled", num_rows=120)
    (tmp_path / "work.py").write_text(HEAD + STEPS + PROGRAM)
    runs.end(runs.start("--parallel", "4", KILL_AT="150"))
    process = runs.start("--resume", KILL_STEP=step)
    assert (runs.end(process), process.returncode) == ("", -signal.SIGKILL)
    if step == "after unlink 1":  # the journal's file, which is the last thing of a run
        assert not runs.journal.exists()
    else:
        runs.resume()
    assert runs.output == unbroken
    assert not list(tmp_path.glob(".*.part"))


def lines_of(runs: Runs) -> int:
    """Rows that are safe: as much as another process can see of the journal's files."""
    size = sum(path.stat().st_size for path in runs.folder.glob("*.journal*"))
    return size // 1500


def test_two_runs_on_one_journal(tmp_path: Path) -> None:
    runs = Runs(tmp_path, "compiled", num_rows=6)
    slow(runs)
    first = runs.start()
    wait_until(runs.journal.exists, "a journal")
    time.sleep(0.2)
    for flags in ([], ["--resume"]):
        second = runs.start(*flags)
        assert "another run is writing out.jsonl.journal" in runs.end(second)
        assert second.returncode == 2
    assert first.poll() is None
    first.kill()
    first.wait()
    (tmp_path / "slow").unlink()
    runs.resume()
    assert len(whole_lines(runs.output)) == 6


@pytest.mark.parametrize("cut", [0, 33, 4152, 20_000, -4153, -1])
def test_a_torn_log_costs_no_more_than_what_was_torn(
    tmp_path: Path, killed: Path, unbroken: bytes, cut: int
) -> None:
    shutil.copytree(killed, tmp_path, dirs_exist_ok=True)
    runs = Runs(tmp_path, "compiled", num_rows=120)
    log = runs.folder / "out.jsonl.journal-wal"
    os.truncate(log, cut if cut >= 0 else log.stat().st_size + cut)
    runs.resume()
    assert runs.output == unbroken


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = Runs(tmp_path_factory.mktemp("killed"), "compiled", num_rows=120)
    process = runs.start("--parallel", "2", KILL_AT="150")
    runs.end(process)
    assert process.returncode == -signal.SIGKILL
    assert (runs.folder / "out.jsonl.journal-wal").stat().st_size > 24_000
    return runs.folder
