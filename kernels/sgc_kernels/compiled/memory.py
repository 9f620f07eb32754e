"""Reading, writing and counting at plain addresses, in compiled kernels."""

from __future__ import annotations

from llvmlite import ir

from sgc_kernels.compiled.lanes import F32, I8, I32, I64, Emitter
from sgc_kernels.compiled.translate import emitted, emitted_int


@emitted_int
def load_int(e: Emitter, address: ir.Value) -> ir.Value:
    return e.raw_load(I64, address, 8)


@emitted_int
def load_int32(e: Emitter, address: ir.Value) -> ir.Value:
    return e.b.sext(e.raw_load(I32, address, 4), I64)


@emitted
def load_float(e: Emitter, address: ir.Value) -> ir.Value:
    return e.raw_load(F32, address, 4)


@emitted
def store_float(e: Emitter, address: ir.Value, value: ir.Value) -> None:
    e.raw_store(value, address, 4)


@emitted
def store_int(e: Emitter, address: ir.Value, value: ir.Value) -> None:
    e.raw_store(value, address, 8)


@emitted
def store_int32(e: Emitter, address: ir.Value, value: ir.Value) -> None:
    e.raw_store(e.b.trunc(value, I32), address, 4)


@emitted
def clear(e: Emitter, address: ir.Value, num_bytes: ir.Value) -> None:
    """Fill with zero bytes."""
    place = e.b.inttoptr(address, I8.as_pointer())
    e.intrinsic("memset.p0.i64", ir.VoidType(), place, I8(0), num_bytes, ir.IntType(1)(0))


@emitted
def copy(e: Emitter, source: ir.Value, target: ir.Value, num_bytes: ir.Value) -> None:
    """Bytes from one place to another that does not overlap it."""
    source, target = (e.b.inttoptr(a, I8.as_pointer()) for a in (source, target))
    e.intrinsic("memcpy.p0.p0.i64", ir.VoidType(), target, source, num_bytes, ir.IntType(1)(0))


@emitted_int
def take_ticket(e: Emitter, address: ir.Value) -> ir.Value:
    """The counter's value; it grows by one, whoever else counts."""
    place = e.b.inttoptr(address, I64.as_pointer())
    return e.b.atomic_rmw("add", place, I64(1), "seq_cst")
