"""From the kernels' source to machine code: numba compiles, LLVM emits one object file a kernel."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from numba import cfunc
from numba.core import types

from sgc_kernels.compiled.attend import make_attend, make_merge
from sgc_kernels.compiled.cut import make_count, make_fill
from sgc_kernels.compiled.elementwise import (
    make_add_norm,
    make_norm,
    make_silu_mul,
    make_turn_store,
)
from sgc_kernels.compiled.lanes import Format
from sgc_kernels.compiled.step import Layout


def build(form: Format, head_dim: int, group: int) -> dict[str, bytes]:
    """Object code of all kernels by name; takes seconds. Each holds one function of that name."""
    layout, i8 = Layout(form, head_dim, group), types.int64
    norm = types.void(*[i8] * 6, types.float32)
    sources: dict[str, tuple[Callable[..., None], Any]] = {
        "attend": (make_attend(form, head_dim, group), types.void(i8)),
        "merge": (make_merge(form, head_dim), types.void(i8)),
        "count": (make_count(layout), types.void(i8)),
        "fill": (make_fill(layout), types.void(i8)),
        "add_norm": (make_add_norm(form), norm),
        "norm": (make_norm(form), norm),
        "silu_mul": (make_silu_mul(form), types.void(*[i8] * 4)),
        "turn_store": (make_turn_store(form, head_dim), types.void(*[i8] * 10)),
    }
    return {name: _object_code(name, *source) for name, source in sources.items()}


def _object_code(name: str, function: Callable[..., None], signature: Any) -> bytes:
    compiled = cfunc(signature, error_model="numpy")(function)
    module = llvm.parse_assembly(_with_plain_entry(name, compiled._library.get_llvm_str()))
    module.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        codemodel="jitdefault",
        jit=True,
    )
    return bytes(machine.emit_object(module))


def _with_plain_entry(name: str, text: str) -> str:
    """The module with an entry that needs nothing of numba at run time.

    numba's own entry raises what the function raises, through Python; these functions raise
    nothing, so the entry only passes their arguments on.
    """
    text = re.sub(r"^define [^\n]*@cfunc\.[^\n]*\{\n.*?^\}\n", "", text, flags=re.M | re.S)
    found = re.search(r"^define (?!linkonce_odr)[^\n]*?i32 (@[^(]+)\((.*)\)[^()\n]*\{$", text, re.M)
    assert found is not None, "no function in the module"
    kinds = [part.split()[0] for part in found[2].split(", ") if not part.startswith("ptr")]
    arguments = [f"{kind} %a{i}" for i, kind in enumerate(kinds)]
    passed = ", ".join(["ptr %result", "ptr %problem", *arguments])
    return text + (
        f"\ndefine void @{name}({', '.join(arguments)}) {{\n"
        "  %result = alloca ptr\n  %problem = alloca ptr\n"
        f"  %status = call i32 {found[1]}({passed})\n"
        "  ret void\n}\n"
    )
