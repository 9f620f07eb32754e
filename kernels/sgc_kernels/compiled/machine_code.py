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
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from sgc_kernels.cache_dir import cache_dir
from sgc_kernels.compiled.target import FORMATS, Target, host_target

_LOG = logging.getLogger("sgc")
_VERSIONS_KEPT = 4  # of LLVM, CPU and source together, for a number format and shape
_INT = ctypes.c_int64
# Each takes the address of a block: `step`, `cut_block` or `job_block`.
_KERNELS = ("attend", "merge", "count", "fill", "add_norm", "norm", "silu_mul", "turn_store")


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
        self.call: dict[str, Callable[[int], None]] = {
            name: ctypes.CFUNCTYPE(None, _INT)(at) for name, at in self.address.items()
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

    def make() -> dict[str, bytes]:
        from sgc_kernels.compiled.build import build

        return build(FORMATS[dtype], head_dim, group, target)

    shape = f"{str(dtype)[6:]}-{head_dim}-{group}"
    return kept_code(shape, _KERNELS, target, make)


def kept_code(
    shape: str,
    names: Sequence[str],
    target: Target,
    make: Callable[[], dict[str, bytes]],
    source: bytes = b"",
) -> MachineCode:
    """Code from the cache directory, or what `make` compiles, which is kept there.

    Args:
        shape: names the file, beside a digest of CPU, compiler and source.
        names: the functions, in the order of the file.
        source: further source that the code depends on.
    """
    file = cache_dir() / "kernels" / f"{shape}-{_digest(target, source)}"
    kept = _read(file, names)
    if kept is not None:
        return MachineCode(kept)
    _LOG.info("compiling kernels for this CPU, once")
    objects = make()
    # A directory that cannot be written only means that the next process compiles again.
    with contextlib.suppress(OSError):
        _save(file, [objects[name] for name in names])
    return MachineCode(objects)


def _read(file: Path, names: Sequence[str]) -> dict[str, bytes] | None:
    """The kernels in a file: its SHA-256, then length and object code of each; None: damaged."""
    try:
        data = file.read_bytes()
    except OSError:
        return None
    digest, rest = data[:32], data[32:]
    if hashlib.sha256(rest).digest() != digest:
        return None
    objects = {}
    for name in names:
        length = int.from_bytes(rest[:8], "little")
        objects[name], rest = rest[8 : 8 + length], rest[8 + length :]
    return objects


def _save(file: Path, parts: Sequence[bytes]) -> None:
    """Whole or not at all, whoever builds at the same time."""
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


def _digest(target: Target, source: bytes) -> str:
    import llvmlite.binding as llvm

    digest = hashlib.sha256(_source() + source)
    described = (target.cpu, sorted(target.features), llvm.llvm_version_info, sys.platform)
    digest.update(repr(described).encode())
    return digest.hexdigest()[:24]


@functools.cache
def _source() -> bytes:
    return b"".join(file.read_bytes() for file in sorted(Path(__file__).parent.glob("*.py")))
