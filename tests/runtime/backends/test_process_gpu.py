"""The engine on a GPU in a process of its own: the same results, and its memory comes back."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.crash import PYTHONPATH
from support.local import answers, prompts, run
from support.processes import gone
from support.whole_gpu import whole_gpu

from sgc_ir.errors import BackendError
from sgc_runtime.backends.engine_backend import engine_backend

pytestmark = pytest.mark.gpu

OPTIONS: dict[str, Any] = {"dtype": "float32", "device": "cuda", "kv_tokens": 20_000}
LOOK = """
import os, sys
from sgc_runtime.backends.engine_backend import engine_backend

backend = engine_backend(sys.argv[1], device="cuda", dtype="float32", kv_tokens=20_000)
backend.identity()
backend.load()
print("torch" in sys.modules, backend.pid)
backend.close()
"""


def free_bytes() -> int:
    """What is free on the GPU, as another process sees it."""
    probe = "import torch; print(torch.cuda.mem_get_info()[0])"
    found = subprocess.run([sys.executable, "-c", probe], capture_output=True, check=True)
    return int(found.stdout)


def test_the_same_results(folder: Path) -> None:
    found = {}
    for process in ("off", "on"):
        owner: Any = engine_backend(folder, **OPTIONS, process=process)
        try:
            found[process] = run(partial(answers, owner, prompts(16), max_tokens=16))
        finally:
            owner.close()
    assert found["on"] == found["off"]


@whole_gpu
def test_memory_comes_back_however_it_ends(folder: Path) -> None:
    before = free_bytes()
    for how in ("close", "kill"):
        owner: Any = engine_backend(folder, **{**OPTIONS, "kv_tokens": None, "kv_memory": "2GB"})
        owner.load()
        assert before - free_bytes() > 2**31
        if how == "close":
            owner.close()
        else:
            os.kill(owner.pid, signal.SIGKILL)
            with pytest.raises(BackendError, match="was killed by SIGKILL"):
                run(partial(answers, owner, ["the fox"]))
            owner.close()
        assert gone(owner.pid)
        until = time.monotonic() + 10
        while before - free_bytes() > 2**29 and time.monotonic() < until:
            time.sleep(0.5)
        assert before - free_bytes() < 2**29


def test_who_asks_needs_neither_torch_nor_the_gpu(folder: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-c", LOOK, str(folder)],
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert found.returncode == 0, found.stderr
    loaded, pid = found.stdout.split()
    assert loaded == "False"
    assert gone(int(pid))


def test_a_call_may_end_early(folder: Path) -> None:
    owner: Any = engine_backend(folder, **OPTIONS)

    async def main() -> None:
        await owner.ready()
        wanted = await answers(owner, ["the quick"], max_tokens=8)
        tasks = [
            asyncio.ensure_future(answers(owner, [text], max_tokens=900, ignore_eos=True))
            for text in prompts(8)
        ]
        await asyncio.sleep(0.2)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert await answers(owner, ["the quick"], max_tokens=8) == wanted

    try:
        run(main)
    finally:
        owner.close()
