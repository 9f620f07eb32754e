"""Tables of a step on their way to the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

_GRAIN = 4  # numbers in 16 bytes


def upload_tables(
    tables: Sequence[NDArray[np.integer[Any]]], device: torch.device
) -> tuple[torch.Tensor, ...]:
    """Copies of the tables, int32 and flat, in one transfer that nobody waits for; each begins at
    16 bytes, so that kernels need not be compiled for other places."""
    sizes = [-(-table.size // _GRAIN) * _GRAIN for table in tables]
    whole = np.zeros(sum(sizes), np.int32)
    at = 0
    for table, size in zip(tables, sizes, strict=True):
        whole[at : at + table.size] = table.ravel()
        at += size
    host = torch.from_numpy(whole)
    there = host if device.type == "cpu" else host.pin_memory().to(device, non_blocking=True)
    parts = torch.split(there, sizes)
    return tuple(part[: table.size] for part, table in zip(parts, tables, strict=True))
