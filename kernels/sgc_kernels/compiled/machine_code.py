"""The compiled kernels in this process: built once a machine, kept on disk, called by address."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import logging
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from sgc_kernels.cache_dir import cache_dir
from sgc_kernels.compiled.target import FORMATS, Target, host_target

_LOG = logging.getLogger("sgc")
_VERSIONS_KEPT = 4  # of LLVM, CPU and source together, for a number format and shape
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
def load_machine_code(
    dtype: torch.dtype, head_dim: int, group: int, target: Target | None = None
) -> MachineCode:
    """The kernels for a number format, head size and number of query heads a key head.

    The first use on a machine compiles them, which takes about a second; the object code is kept
    in the user's cache directory, by CPU and source.

    Raises:
        OSError, RuntimeError: the compiler does not load, or does not know this CPU.
    """
    target = target or host_target()
    file = cache_dir() / "kernels" / _name(dtype, head_dim, group, target)
    kept = _read(file)
    if kept is not None:
        return MachineCode(kept)
    _LOG.info("compiling kernels for this CPU, once")
    from sgc_kernels.compiled.build import build

    objects = build(FORMATS[dtype], head_dim, group, target)
    # A directory that cannot be written only means that the next process compiles again.
    with contextlib.suppress(OSError):
        _save(file, objects)
    return MachineCode(objects)


def _read(file: Path) -> dict[str, bytes] | None:
    """The kernels in a file: its SHA-256, then length and object code of each; None: damaged."""
    try:
        data = file.read_bytes()
    except OSError:
        return None
    digest, rest = data[:32], data[32:]
    if hashlib.sha256(rest).digest() != digest:
        return None
    objects = {}
    for name in _ARGUMENTS:
        length = int.from_bytes(rest[:8], "little")
        objects[name], rest = rest[8 : 8 + length], rest[8 + length :]
    return objects


def _save(file: Path, objects: dict[str, bytes]) -> None:
    """Whole or not at all, whoever builds at the same time."""
    parts = [objects[name] for name in _ARGUMENTS]
    rest = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent) as beside:
        whole = Path(beside) / "code"
        whole.write_bytes(hashlib.sha256(rest).digest() + rest)
        os.replace(whole, file)
    shape = file.name.rpartition("-")[0]
    versions = [(old.stat().st_mtime_ns, old) for old in file.parent.glob(f"{shape}-*")]
    for _, old in sorted(versions)[:-_VERSIONS_KEPT]:
        old.unlink(missing_ok=True)


def _name(dtype: torch.dtype, head_dim: int, group: int, target: Target) -> str:
    import llvmlite.binding as llvm

    digest = hashlib.sha256(_source())
    described = (target.cpu, sorted(target.features), llvm.llvm_version_info, sys.platform)
    digest.update(repr(described).encode())
    return f"{str(dtype)[6:]}-{head_dim}-{group}-{digest.hexdigest()[:24]}"


@functools.cache
def _source() -> bytes:
    return b"".join(file.read_bytes() for file in sorted(Path(__file__).parent.glob("*.py")))


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
