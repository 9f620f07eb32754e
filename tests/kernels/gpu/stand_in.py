"""A stand-in for a GPU's driver: Triton compiles and launches as for an H100, by its own C code,
and what would go to the GPU is kept.

Not for the process of the tests: Triton must be imported here first, without its interpreter.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

_SOURCE = r"""
#include <stdint.h>
#include <string.h>
typedef struct {
  unsigned grid[3], block[3], shared; void *stream, *attributes; unsigned many;
} Config;
typedef struct {
  uint32_t grid[3], block, shared, many; uint64_t stream, function, given[40];
} Launch;
Launch launches[4096];
int launched = 0, parameters = 0, looked_up = 0;
int cuGetErrorString(int error, const char **text) { *text = "stand-in"; return 0; }
int cuPointerGetAttribute(uint64_t *out, int kind, uint64_t pointer) {
  looked_up++; *out = pointer; return 0;
}
int cuCtxGetCurrent(void **context) { *context = (void *)1; return 0; }
int cuDeviceGet(int *device, int number) { *device = 0; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)1; return 0; }
int cuCtxSetCurrent(void *context) { return 0; }
int cuFuncSetAttribute(void *function, int kind, int value) { return 0; }
int cuLaunchKernelEx(const Config *config, void *function, void **given, void **extra) {
  Launch *launch = &launches[launched++ % 4096];
  memcpy(launch->grid, config->grid, sizeof launch->grid);
  launch->block = config->block[0]; launch->shared = config->shared; launch->many = config->many;
  launch->stream = (uint64_t)config->stream; launch->function = (uint64_t)function;
  for (int i = 0; i < parameters; i++) memcpy(&launch->given[i], given[i], 8);
  return 0;
}
"""


class _Launch(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32),
        ("shared", ctypes.c_uint32),
        ("many", ctypes.c_uint32),
        ("stream", ctypes.c_uint64),
        ("function", ctypes.c_uint64),
        ("given", ctypes.c_uint64 * 40),
    ]


class _Utils:
    """What Triton asks a driver's helper."""

    loaded = 0

    def load_binary(self, *_: object) -> tuple[int, int, int, int, int]:
        _Utils.loaded += 1
        return 1, 0x1000 + _Utils.loaded, 0, 0, 1024

    def get_device_properties(self, _: int) -> dict[str, int]:
        return {"max_shared_mem": 232448, "multiprocessor_count": 132}


class StandIn:
    """Installs itself as Triton's driver; `folder` gets its library and compiled kernels."""

    def __init__(self, folder: Path) -> None:
        source, library = folder / "driver.c", folder / "libcuda.so.1"
        source.write_text(_SOURCE)
        name = f"-Wl,-soname,{library.name}"
        subprocess.run(["gcc", "-shared", "-fPIC", "-w", name, "-o", library, source], check=True)
        os.environ |= {"TRITON_INTERPRET": "0", "TRITON_LIBCUDA_PATH": str(folder)}
        os.environ["TRITON_CACHE_DIR"] = str(folder / "cache")
        self._library = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
        _install()

    def _number(self, name: str) -> ctypes.c_int:
        return ctypes.c_int.in_dll(self._library, name)

    @property
    def looked_up(self) -> int:
        """How many addresses the driver was asked about."""
        return self._number("looked_up").value

    def launches(self, body: Callable[[], object], kinds: list[str]) -> list[tuple[Any, ...]]:
        """What the driver was told by `body`, whose kernels have parameters of Triton's `kinds`."""
        wide = [kind[0] == "*" or kind == "i64" for kind in kinds if kind != "constexpr"]
        launched, parameters = self._number("launched"), self._number("parameters")
        launched.value, parameters.value = 0, len(wide)
        body()
        parameters.value = 0
        kept = (_Launch * 4096).in_dll(self._library, "launches")
        return [
            (
                tuple(launch.grid),
                (launch.block, launch.shared, launch.many, launch.stream, launch.function),
                [
                    launch.given[i] if w else launch.given[i] & 0xFFFFFFFF
                    for i, w in enumerate(wide)
                ],
            )
            for launch in kept[: launched.value]
        ]


def _install() -> None:
    import torch
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.backends.driver import DriverBase
    from triton.backends.nvidia import driver as nvidia

    class Driver(DriverBase):  # type: ignore[misc]
        utils = _Utils()
        launcher_cls = nvidia.CudaLauncher

        @classmethod
        def is_active(cls) -> bool:
            return True

        def map_python_to_cpp_type(self, ty: str) -> str:
            return str(nvidia.ty_to_cpp(ty))

        def get_current_target(self) -> GPUTarget:
            return GPUTarget("cuda", 90, 32)

        def get_active_torch_device(self) -> torch.device:
            return torch.device("cpu")

        def get_benchmarker(self) -> Any:
            raise NotImplementedError

        def get_current_device(self) -> int:
            return 0

        def get_current_stream(self, _: int) -> int:
            return 7

    nvidia.PyCUtensorMap = type("PyCUtensorMap", (), {})  # its C code looks for this
    triton.runtime.driver.set_active(Driver())
