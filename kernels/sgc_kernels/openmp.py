"""The OpenMP that torch computes with: compiled code runs on the same threads."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path

import torch

_LIBRARIES = ("libgomp", "libiomp5", "libomp")  # all of them answer to GCC's name
_ARGUMENTS = (ctypes.c_int64, ctypes.c_int64, ctypes.c_uint, ctypes.c_uint)


@functools.cache
def parallel_call() -> Callable[[int, int, int, int], None] | None:
    """`f(function, argument, threads, 0)`: every thread calls the function at that address with
    the address of its argument. None where no OpenMP library is found: compute on one thread.
    """
    address = parallel_address()
    return None if address is None else ctypes.CFUNCTYPE(None, *_ARGUMENTS)(address)


@functools.cache
def parallel_address() -> int | None:
    """Address of `GOMP_parallel`, which `parallel_call` calls."""
    for path in _loaded_libraries():
        try:
            function = ctypes.CDLL(path).GOMP_parallel
        except (OSError, AttributeError):
            continue
        return ctypes.cast(function, ctypes.c_void_p).value
    return None


def _loaded_libraries() -> list[str]:
    """OpenMP libraries of this process, torch's own first."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return []
    paths = {line.split(maxsplit=5)[5] for line in lines if len(line.split(maxsplit=5)) == 6}
    found = [path for path in paths if Path(path).name.startswith(_LIBRARIES)]
    home = str(Path(torch.__file__).parent)
    return sorted(found, key=lambda path: (not path.startswith(home), path))
