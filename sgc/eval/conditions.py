"""Under what conditions an evaluation ran: what must be the same for its figures to come again."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import file_digest, sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from sgc.cli.backend import BackendSettings
from sgc.eval.options import EvalOptions

_PACKAGES = ("sgc", "torch", "transformers", "tokenizers", "numpy", "llvmlite", "triton")
_ROOT = Path(__file__).resolve().parents[2]
_WEIGHTS = ("*.safetensors", "*.gguf")


def conditions(command: Sequence[str], options: EvalOptions) -> dict[str, Any]:
    """Command, time, code, model, packages, hardware, seed and flags, as JSON data."""
    return {
        "command": list(command),
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        **_code(),
        **_model(options),
        "data": options.data,
        "seed": options.seed,
        "flags": {
            "limit": options.limit,
            "shots": options.shots,
            **{name: _plain(value) for name, value in options.settings.items()},
            **{name: _plain(value) for name, value in options.engine.items()},
        },
        "python": platform.python_version(),
        "packages": {name: found for name in _PACKAGES if (found := _version(name))},
        "hardware": _hardware(options.engine),
    }


def _code() -> dict[str, Any]:
    if not (_ROOT / ".git").exists():
        return {"version": _version("sgc")}
    changed = len(_git("status", "--porcelain", "--untracked-files=no").splitlines())
    return {"commit": _git("rev-parse", "HEAD"), "changed_files": changed}


def _model(options: EvalOptions) -> dict[str, Any]:
    from sgc.default_backend import default_backend
    from sgc_runtime.models import resolve

    preset = default_backend().backend
    if preset is not None and options.backend is None and not options.engine:
        return {"model": preset.name, "model_sha256": None}
    name = options.engine.get("model", BackendSettings().model)
    return {"model": name, "model_sha256": _digest(resolve(name))}


def _digest(path: Path) -> str:
    """SHA-256 of a file, or of those of all weights of a folder, by name."""
    if path.is_file():
        with open(path, "rb") as file:
            return file_digest(file, "sha256").hexdigest()
    files = sorted(file for pattern in _WEIGHTS for file in path.glob(pattern))
    return sha256("".join(f"{f.name} {_digest(f)}\n" for f in files).encode()).hexdigest()


def _hardware(engine: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"cpu": _cpu_name(), "cores": _cores()}
    if hasattr(os, "sysconf"):
        found["memory_gib"] = round(
            os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
        )
    if str(engine.get("device", "cpu")).startswith("cuda"):
        import torch

        found["gpu"] = torch.cuda.get_device_name(engine["device"])
    return found


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git(*args: str) -> str:
    try:
        done = subprocess.run(
            ["git", *args], cwd=_ROOT, capture_output=True, text=True, timeout=30, check=False
        )
    except OSError:
        return ""  # there is no git
    return done.stdout.strip()


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
