"""Machine code of the products with grouped weights: compiled by LLVM, kept in a directory."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable

from sgc_kernels.compiled.machine_code import MachineCode, kept_code
from sgc_kernels.compiled.target import host_target
from sgc_kernels.openmp import parallel_address
from sgc_kernels.weights.grouped_ir import Layout, function_name, module_text

# (shape, x, out, sums, rows, threads): addresses and counts; see `module_text`.
Product = Callable[[int, int, int, int, int, int], None]

_NEEDED = frozenset({"avx512bw", "avx512bf16"})
_TYPES = (ctypes.c_void_p,) * 4 + (ctypes.c_int64, ctypes.c_int32)
_lock = threading.Lock()
_alive: dict[tuple[Layout, bool], tuple[Product, MachineCode]] = {}  # with what holds the code


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


def _load(layout: Layout, wide: bool) -> tuple[Product, MachineCode]:
    import llvmlite.binding as llvm

    address = parallel_address()
    assert address is not None, "asked for without can_compile"
    llvm.add_symbol("GOMP_parallel", address)
    text, name, target = module_text(layout, wide), function_name(layout, wide), host_target()

    def make() -> dict[str, bytes]:
        from sgc_kernels.compiled.object_code import object_code_of_text

        return {name: object_code_of_text(text, target)}

    code = kept_code(name, (name,), target, make, text.encode())
    return ctypes.CFUNCTYPE(None, *_TYPES)(code.address[name]), code
