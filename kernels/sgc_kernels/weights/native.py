"""Machine code of the products with grouped weights: compiled by LLVM, kept in a directory."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sgc_kernels.compiled.target import host_target
from sgc_kernels.openmp import parallel_address
from sgc_kernels.weights.grouped_ir import Layout, function_name, module_text

# (shape, x, out, sums, rows, threads): addresses and counts; see `module_text`.
Product = Callable[[int, int, int, int, int, int], None]

_NEEDED = frozenset({"avx512bw", "avx512bf16"})
_VERSIONS_KEPT = 4  # of LLVM, CPU and kernel together, for a layout
_TYPES = (ctypes.c_void_p,) * 4 + (ctypes.c_int64, ctypes.c_int32)
_lock = threading.Lock()
_alive: dict[tuple[Layout, bool], tuple[Product, Any]] = {}  # with the engine that holds the code
_directory: Path | None = None


def keep_code_in(directory: Path) -> None:
    """Keep compiled code in `directory` from now on, so that later processes need not compile.

    Files that cannot be read or written are passed over: compiling takes 0.15 s a layout.
    """
    global _directory
    _directory = directory


@functools.cache
def can_compile() -> bool:
    """Whether this machine has llvmlite, bfloat16 dot products and an OpenMP that torch uses."""
    return host_target().features >= _NEEDED and parallel_address() is not None


def product_of(layout: Layout, wide: bool = False) -> Product:
    """The compiled function for a layout, which gives bfloat16 or, `wide`, float32; one per
    process."""
    with _lock:
        if (layout, wide) not in _alive:
            _alive[layout, wide] = _load(layout, wide)
        return _alive[layout, wide][0]


def _load(layout: Layout, wide: bool) -> tuple[Product, Any]:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    address = parallel_address()
    assert address is not None, "asked for without can_compile"
    llvm.add_symbol("GOMP_parallel", address)
    text, name = module_text(layout, wide), function_name(layout, wide)
    features = llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=2
    )
    module = llvm.parse_assembly(text)
    engine = llvm.create_mcjit_compiler(module, target)
    kept = _Kept(_file(name, text, features, str(llvm.llvm_version_info)))
    engine.set_object_cache(kept.put, kept.get)
    engine.finalize_object()
    function = ctypes.CFUNCTYPE(None, *_TYPES)(engine.get_function_address(name))
    return function, (engine, kept)


def _file(name: str, *parts: str) -> Path | None:
    if _directory is None:
        return None
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    return _directory / f"{name}-{key}.o"


class _Kept:
    """Object code in a file: a SHA-256 of it, then the code."""

    def __init__(self, place: Path | None) -> None:
        self._place = place

    def get(self, module: Any) -> bytes | None:
        """The code, if the file is there and whole."""
        if self._place is None:
            return None
        try:
            data = self._place.read_bytes()
        except OSError:
            return None
        return data[32:] if hashlib.sha256(data[32:]).digest() == data[:32] else None

    def put(self, module: Any, code: bytes) -> None:
        """Written beside and moved over, so that no other process sees half of it."""
        if self._place is None:
            return
        try:
            self._place.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self._place.parent) as beside:
                file = Path(beside) / "code"
                file.write_bytes(hashlib.sha256(code).digest() + code)
                os.replace(file, self._place)
            self._drop_old()
        except OSError:
            return  # a cache that cannot be written costs a compilation next time

    def _drop_old(self) -> None:
        """Code of other versions of this layout, but for the newest few; 40 KB a file at most."""
        assert self._place is not None
        stem = self._place.name.rpartition("-")[0]
        files = [(file.stat().st_mtime_ns, file) for file in self._place.parent.glob(f"{stem}-*.o")]
        for _, file in sorted(files)[:-_VERSIONS_KEPT]:
            file.unlink(missing_ok=True)
