"""What kernels need to know of the device that they run on."""

from __future__ import annotations

import functools

import torch


@functools.cache
def multiprocessors(device: torch.device) -> int:
    """How many there are; few for the interpreter, so that work is cut and left whole by turns."""
    if device.type == "cpu":
        return 4
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


@functools.cache
def has_pdl(device: torch.device) -> bool:
    """Whether a kernel may start while the one before it is running (programmatic dependent
    launch); not where there is no GPU at all."""
    if device.type != "cuda" or not torch.cuda.is_available():
        return False
    return torch.cuda.get_device_capability(device) >= (9, 0)
