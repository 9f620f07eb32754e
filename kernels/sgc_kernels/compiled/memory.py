"""Reading, writing and counting at plain addresses, in compiled kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from sgc_kernels.compiled.lanes import F32, I32, I64


def _load(kind: Any, llvm: ir.Type) -> Any:
    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> Any:
        return builder.load(builder.inttoptr(args[0], llvm.as_pointer()))

    return kind(types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def load_int(tc: Any, address: Any) -> Any:
    return _load(types.int64, I64)


@intrinsic  # type: ignore[untyped-decorator]
def load_float(tc: Any, address: Any) -> Any:
    return _load(types.float32, F32)


@intrinsic  # type: ignore[untyped-decorator]
def store_float(tc: Any, address: Any, value: Any) -> Any:
    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> Any:
        builder.store(args[1], builder.inttoptr(args[0], F32.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, types.float32), codegen


@intrinsic  # type: ignore[untyped-decorator]
def store_int(tc: Any, address: Any, value: Any) -> Any:
    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> Any:
        builder.store(args[1], builder.inttoptr(args[0], I64.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def clear(tc: Any, address: Any, num_bytes: Any) -> Any:
    """Fill with zero bytes."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> Any:
        place = builder.inttoptr(args[0], ir.IntType(8).as_pointer())
        cgutils.memset(builder, place, args[1], 0)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def load_int32(tc: Any, address: Any) -> Any:
    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> Any:
        value = builder.load(builder.inttoptr(args[0], I32.as_pointer()))
        return builder.sext(value, I64)

    return types.int64(types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def take_ticket(tc: Any, address: Any) -> Any:
    """The counter's value; it grows by one, whoever else counts."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> Any:
        place = builder.inttoptr(args[0], I64.as_pointer())
        return builder.atomic_rmw("add", place, I64(1), "seq_cst")

    return types.int64(types.int64), codegen
