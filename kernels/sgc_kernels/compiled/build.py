"""From the kernels' source to machine code: one object file a kernel, by LLVM."""

from __future__ import annotations

import functools
from collections.abc import Callable

import llvmlite.binding as llvm

from sgc_kernels.compiled.attend import make_attend, make_merge
from sgc_kernels.compiled.cut import make_count, make_fill
from sgc_kernels.compiled.elementwise import (
    make_add_norm,
    make_norm,
    make_silu_mul,
    make_turn_store,
)
from sgc_kernels.compiled.step import Layout
from sgc_kernels.compiled.target import Format, Target
from sgc_kernels.compiled.translate import module_text


def build(form: Format, head_dim: int, group: int, target: Target) -> dict[str, bytes]:
    """Object code of all kernels by name; takes a second. Each holds one function of that name."""
    layout = Layout(target, form, head_dim, group)
    sources: dict[str, Callable[..., None]] = {
        "attend": make_attend(target, form, head_dim, group),
        "merge": make_merge(form, head_dim),
        "count": make_count(layout),
        "fill": make_fill(layout),
        "add_norm": make_add_norm(form),
        "norm": make_norm(form),
        "silu_mul": make_silu_mul(form),
        "turn_store": make_turn_store(form, head_dim),
    }
    return {name: _object_code(name, source, target) for name, source in sources.items()}


def _object_code(name: str, source: Callable[..., None], target: Target) -> bytes:
    machine = _machine(target)
    module = llvm.parse_assembly(module_text(name, source, target))
    module.verify()
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))


@functools.cache
def _machine(target: Target) -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    known = llvm.get_host_cpu_features()
    features = [f"{'+' if name in target.features else '-'}{name}" for name in sorted(known)]
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=target.cpu, features=",".join(features), opt=2, codemodel="jitdefault", jit=True
    )
