"""The compiled kernels in this process: built once a machine, kept on disk, called by address."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

_NAMES = ("attend", "merge", "count", "fill", "add_norm", "norm", "silu_mul", "turn_store")
_INT, _FLOAT = ctypes.c_int64, ctypes.c_float
_NORM = [_INT] * 6 + [_FLOAT]
_ARGUMENTS: dict[str, list[Any]] = {
    "attend": [_INT],
    "merge": [_INT],
    "count": [_INT],
    "fill": [_INT],
    "add_norm": _NORM,
    "norm": _NORM,
    "silu_mul": [_INT] * 4,
    "turn_store": [_INT] * 10,
}


class MachineCode:
    """Functions by name, as ctypes calls them and as plain addresses."""

    def __init__(self, objects: dict[str, bytes]) -> None:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine()
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        for code in objects.values():
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        self.address = {name: self._engine.get_function_address(name) for name in objects}
        self.call: dict[str, Callable[..., None]] = {
            name: ctypes.CFUNCTYPE(None, *_ARGUMENTS[name])(at) for name, at in self.address.items()
        }


@functools.cache
def load_machine_code(dtype: torch.dtype, head_dim: int, group: int) -> MachineCode:
    """The kernels for a number format, head size and number of query heads a key head.

    The first use on a machine compiles them, which takes about ten seconds; the object code is
    kept in the user's cache directory, by CPU and source.
    """
    folder = _cache_folder() / _key(dtype, head_dim, group)
    if all((folder / name).is_file() for name in _NAMES):
        return MachineCode({name: (folder / name).read_bytes() for name in _NAMES})
    from sgc_kernels.compiled.build import build
    from sgc_kernels.compiled.lanes import FORMATS

    objects = build(FORMATS[dtype], head_dim, group)
    # A directory that cannot be written only means that the next process compiles again.
    with contextlib.suppress(OSError):
        _save(folder, objects)
    return MachineCode(objects)


def _save(folder: Path, objects: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, code in objects.items():
        # Whole or not at all, whoever builds at the same time.
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(code)
        os.replace(file.name, folder / name)


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "sgc" / "kernels"


def _key(dtype: torch.dtype, head_dim: int, group: int) -> str:
    import llvmlite.binding as llvm

    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    features = sorted(k for k, has in llvm.get_host_cpu_features().items() if has)
    digest.update(repr((llvm.get_host_cpu_name(), features, llvm.llvm_version_info)).encode())
    return f"{str(dtype)[6:]}-{head_dim}-{group}-{digest.hexdigest()[:24]}"


@functools.cache
def parallel_call() -> Callable[[int, int, int, int], None] | None:
    """`f(function, argument, threads, 0)` of torch's own OpenMP, so that both use the same
    threads; None where torch has another one.
    """
    if not sys.platform.startswith("linux"):
        return None
    folder = Path(torch.__file__).parent / "lib"
    for file in folder.glob("libgomp*.so*"):
        call = ctypes.CDLL(str(file)).GOMP_parallel
        call.argtypes, call.restype = [_INT, _INT, ctypes.c_uint, ctypes.c_uint], None
        return call
    return None
