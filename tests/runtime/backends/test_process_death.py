"""An engine's process and the one that started it, when one of them dies."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from support.crash import PYTHONPATH
from support.local import gen, run
from support.processes import gone, is_alive

from sgc_ir.errors import BackendError
from sgc_runtime.backends.process import ProcessBackend
from sgc_runtime.executor.backend import Text

OPTIONS: dict[str, Any] = {"dtype": "float32", "kv_tokens": 4000}

# Prints the id of the engine's process once it does what is asked for, then goes on doing it.
PARENT = """
import asyncio, os, signal, sys, time
from sgc_ir.params import SamplingParams
from sgc_runtime.backends.process import ProcessBackend
from sgc_runtime.executor.backend import Call, Text

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by jobs in the background
folder, what = sys.argv[1:]
backend = ProcessBackend(folder, dtype="float32", kv_tokens=4000)

async def main():
    stream = backend.open()
    stream.append([Text("the fox")])
    loop, told = asyncio.get_running_loop(), []

    def tell(piece=""):
        if not told:
            told.append(print(backend.pid, flush=True))

    params = SamplingParams(max_tokens=900, ignore_eos=True)
    if what == "loads":
        loop.call_later(0.2, tell)
    if what == "is left open":
        params = SamplingParams(max_tokens=4)
    while True:
        await stream.generate(Call("g0", "", 0, params, (0,), on_text=tell))
        if what == "is left open":
            return
        stream = backend.open()
        stream.append([Text("the fox")])

if what == "has forked":
    backend.load()
    if os.fork() == 0:
        time.sleep(600)
asyncio.run(main())
"""


def start(folder: Path, what: str) -> tuple[subprocess.Popen[str], int]:
    """A process that uses an engine, and the id of the engine's process."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(folder), what],
        env={**os.environ, "PYTHONPATH": PYTHONPATH, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert parent.stdout is not None
    line = parent.stdout.readline()
    assert line, parent.communicate()[1]
    return parent, int(line)


@contextmanager
def using(folder: Path, what: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The same; at the end nothing of it is left."""
    parent, child = start(folder, what)
    try:
        yield parent, child
    finally:
        with suppress(ProcessLookupError):
            os.killpg(parent.pid, signal.SIGKILL)
        parent.communicate()
        if is_alive(child):
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("what", ["generates", "loads", "has forked"])
def test_it_ends_when_the_other_is_killed(folder: Path, what: str) -> None:
    with using(folder, what) as (parent, child):
        assert is_alive(child)
        parent.kill()
        assert gone(child, within_s=15)  # the machine may be busy


def test_it_ends_with_the_other(folder: Path) -> None:
    parent, child = start(folder, "is left open")
    _, err = parent.communicate(timeout=60)
    assert (parent.returncode, err) == (0, "")
    assert gone(child)


def test_an_interrupt_in_the_terminal_is_not_for_it(folder: Path) -> None:
    with using(folder, "generates") as (parent, child):
        assert os.getsid(child) != os.getsid(parent.pid)
        os.kill(child, signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            parent.wait(0.5)
        assert is_alive(child)
        os.killpg(parent.pid, signal.SIGINT)  # as a terminal does
        parent.wait(30)
        assert gone(child)


def test_calls_fail_with_one_line_when_it_is_killed(folder: Path) -> None:
    owner = ProcessBackend(folder, **OPTIONS)

    def stream() -> Any:
        opened = owner.open()
        opened.append([Text("the fox")])
        return opened

    async def main() -> None:
        first = asyncio.Event()
        on = stream()
        calls = [gen(on, max_tokens=900, ignore_eos=True, on_text=lambda piece: first.set())]
        calls += [gen(stream(), max_tokens=800, ignore_eos=True) for _ in range(3)]
        tasks = [asyncio.ensure_future(call) for call in calls]
        await first.wait()
        assert owner.pid is not None
        os.kill(owner.pid, signal.SIGKILL)
        wanted = f"^the engine's process \\(pid {owner.pid}\\) was killed by SIGKILL"
        for task in tasks:
            with pytest.raises(BackendError, match=wanted) as raised:
                await task
            assert "\n" not in str(raised.value)
        for ask in (lambda: gen(on), lambda: gen(stream()), owner.ready):
            with pytest.raises(BackendError, match=wanted):
                await ask()

    try:
        run(main)
        with pytest.raises(BackendError, match="was killed"):
            owner.load()
        assert owner.pid is not None
        with pytest.raises(ProcessLookupError):  # nothing of it is left, no zombie either
            os.kill(owner.pid, 0)
        assert owner.stats() == {}  # they were not asked for before
    finally:
        owner.close()


def test_threads_that_wait_hear_of_it(folder: Path) -> None:
    owner = ProcessBackend(folder, **OPTIONS)

    async def main() -> None:
        loading = asyncio.ensure_future(asyncio.to_thread(owner.load))
        while owner.pid is None:
            await asyncio.sleep(0.01)
        os.kill(owner.pid, signal.SIGKILL)
        with pytest.raises(BackendError, match="was killed by SIGKILL"):
            await loading

    run(main)
    owner.close()


def test_one_that_cannot_start_says_why(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    owner = ProcessBackend(folder, **OPTIONS)
    for _ in range(2):
        with pytest.raises(BackendError, match=r"cannot be started: No such file"):
            owner.load()
    owner.close()


def test_one_that_ends_by_itself_says_with_what(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sgc_runtime.backends.process_child._BOOT", "raise SystemExit(7)")
    owner = ProcessBackend(folder, **OPTIONS)
    with pytest.raises(BackendError, match="ended with code 7"):
        owner.load()
    owner.close()
