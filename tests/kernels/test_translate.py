"""Kernels mean what the same functions mean in Python."""

from __future__ import annotations

import ctypes

import llvmlite.binding as llvm
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgc_kernels.compiled.memory import load_int, store_int
from sgc_kernels.compiled.object_code import object_code
from sgc_kernels.compiled.target import host_target
from sgc_kernels.compiled.translate import kernel

STEP = 3


def _divided(a: int, b: int) -> tuple[int, int]:
    return a // b, a % b


def _steps(a: int, end: int) -> int:
    """Early returns, `continue`, and tests of which the second may not be evaluated."""
    if end < 0:
        return -1
    count = 0
    while a < end and (end - a) // max(end - a, 1) == 1:
        a += STEP
        if a % 2 == 0 or a == 7:
            continue
        count += 2 if a > 10 else 1
    for i in range(2, end, STEP):
        if i <= a <= i + 5:
            count = count + i
        elif not i == 4:
            count -= 1
    return count


divided, steps = kernel(_divided), kernel(_steps)


def everything(at: int) -> None:
    a, b = load_int(at), load_int(at + 8)
    quotient, rest = divided(a, b)
    store_int(at + 16, quotient)
    store_int(at + 24, rest)
    store_int(at + 32, steps(a, b) + steps(b, -1))
    least, most = min(a, b, 9), max(a - b, -b)
    store_int(at + 40, (least + most * 2) & -16)
    if STEP == 3:  # known while translating
        store_int(at + 48, 1 << 40)


@pytest.fixture(scope="module")
def compiled() -> object:
    code = object_code("everything", everything, host_target())
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    call = ctypes.CFUNCTYPE(None, ctypes.c_int64)(engine.get_function_address("everything"))
    return call, engine


@settings(max_examples=300, deadline=None)
@given(a=st.integers(0, 60), b=st.integers(1, 60))
def test_kernels_equal_python(compiled: tuple[object, object], a: int, b: int) -> None:
    call = compiled[0]
    assert callable(call)
    memory = (ctypes.c_int64 * 7)(a, b)
    call(ctypes.addressof(memory))
    least, most = min(a, b, 9), max(a - b, -b)
    expected = [*_divided(a, b), _steps(a, b) - 1, (least + most * 2) & -16, 1 << 40]
    assert list(memory)[2:] == expected


def test_kernels_are_not_called_from_python() -> None:
    for name in (steps, load_int):
        with pytest.raises(TypeError, match="no meaning"):
            name(1, 2)
