"""The conditions of a measurement on a GPU."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from benchmarks.common.conditions import conditions, cores

_PACKAGES = ("triton", "flashinfer-python")


def gpu_conditions(device: torch.device) -> dict[str, Any]:
    """Those of any benchmark, and the GPU with its versions."""
    found = conditions(cores())
    found["versions"] |= {name: of for name in _PACKAGES if (of := _version(name))}
    found["device"] = str(device)
    if device.type == "cuda":
        facts = torch.cuda.get_device_properties(device)
        found |= {
            "gpu": facts.name,
            "multiprocessors": facts.multi_processor_count,
            "gpu_memory_gib": round(facts.total_memory / 2**30, 1),
            "cuda": torch.version.cuda,
        }
    return found


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
