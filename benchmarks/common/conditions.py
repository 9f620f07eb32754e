"""Under what conditions a figure was measured."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_PACKAGES = (
    "torch",
    "transformers",
    "llama-cpp-python",
    "outlines",
    "guidance",
    "numpy",
    "sgc",
)
_ROOT = Path(__file__).resolve().parents[2]


def use_threads(number: int) -> None:
    """Let every library that is loaded from now on compute with `number` threads.

    To be called before torch is imported: its threads take the setting from the environment.
    """
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(number)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def conditions(threads: int) -> dict[str, Any]:
    """Machine, versions, commit and load, for the head of a result file."""
    return {
        **load_and_time(),
        "cpu": _cpu_name(),
        "cores": cores(),
        "threads": threads,
        "python": platform.python_version(),
        "versions": {name: found for name in _PACKAGES if (found := _version(name))},
        "commit": _git("rev-parse", "--short", "HEAD"),
        "changed_files": len(_git("status", "--porcelain", "--untracked-files=no").splitlines()),
    }


def load_and_time() -> dict[str, Any]:
    """The two conditions that change while a benchmark runs."""
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "load_average": round(os.getloadavg()[0], 2),
    }


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    flags = next((line.split() for line in lines if line.startswith("flags")), [])
    wide = [f for f in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16") if f in flags]
    return f"{names[0] if names else platform.processor()} ({', '.join(wide)})"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git(*args: str) -> str:
    done = subprocess.run(
        ["git", *args], cwd=_ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    return done.stdout.strip()
