"""The device that a model runs on."""

from __future__ import annotations

import torch

from sgc_ir.errors import ModelError

_GIVE = "give cpu, cuda or cuda:N"


def find_device(device: str | torch.device) -> torch.device:
    """The device of that name; a GPU always with its index, so that equal devices are equal.

    Raises:
        ModelError: there is no such device, or none that a model can run on.
    """
    try:
        found = torch.device(device)
    except RuntimeError as error:
        raise ModelError(f"unknown device {str(device)!r}: {_GIVE}") from error
    if found.type == "cpu":
        return found
    if found.type != "cuda":
        raise ModelError(f"device {found} is not supported: {_GIVE}")
    number = torch.cuda.device_count()
    if number == 0:
        build = "this torch is built without CUDA" if torch.version.cuda is None else "no GPU here"
        raise ModelError(f"device {found} is not to be had: {build}; give cpu")
    index = _current() if found.index is None else found.index
    if index >= number:
        raise ModelError(f"device {found} is not to be had: there are {number}; give cuda:0 or cpu")
    return torch.device("cuda", index)


def use_device(device: torch.device) -> None:
    """Have this thread launch its kernels on `device`. Triton launches on the thread's own device,
    which is the first one in a new thread, wherever the tensors lie."""
    if device.type == "cuda":
        torch.cuda.set_device(device)


def _current() -> int:
    try:
        return torch.cuda.current_device()
    except RuntimeError as error:  # the driver refuses
        line = " ".join(str(error).split())
        raise ModelError(f"device cuda is not to be had: {line}; give cpu") from error
