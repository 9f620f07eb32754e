"""From a kernel's source to machine code, by LLVM."""

from __future__ import annotations

import functools
from collections.abc import Callable

import llvmlite.binding as llvm

from sgc_kernels.compiled.target import Target
from sgc_kernels.compiled.translate import module_text


def object_code(name: str, source: Callable[..., None], target: Target) -> bytes:
    """An object file that holds the kernel `source` as the function `name`."""
    machine = _machine(target)
    module = llvm.parse_assembly(module_text(name, source, target))
    module.verify()
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))


def object_code_of_text(text: str, target: Target) -> bytes:
    """An object file of a module that is written in LLVM's language, its instructions as they
    stand there."""
    module = llvm.parse_assembly(text)
    module.verify()
    return bytes(_machine(target).emit_object(module))


@functools.cache
def _machine(target: Target) -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    known = llvm.get_host_cpu_features()
    features = [f"{'+' if name in target.features else '-'}{name}" for name in sorted(known)]
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=target.cpu, features=",".join(features), opt=2, codemodel="jitdefault", jit=True
    )
