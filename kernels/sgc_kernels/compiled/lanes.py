"""Vectors of 16 float32 lanes in LLVM IR: what the compiled kernels are written in.

LLVM cuts these vectors into whatever the CPU has (one AVX-512, two AVX2, four NEON registers).
Addresses are plain integers, so that a kernel needs no array objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from sgc_kernels.compiled.target import Format, Target

LANES = 16

F32 = ir.FloatType()
I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
VF32, VI16, VI32 = (ir.VectorType(t, LANES) for t in (F32, I16, I32))
VF16 = ir.VectorType(ir.HalfType(), LANES)


class _BFloat(ir.Type):  # type: ignore[misc]
    """llvmlite's IR has no bfloat type."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash("bfloat")


class Emitter:
    """Emits vector operations at an IR builder's place. Vectors are `VF32` unless said."""

    def __init__(self, builder: ir.IRBuilder, target: Target) -> None:
        self.b = builder
        self.target = target

    # -- variables and loops ------------------------------------------------------------------

    def alloca(self, kind: ir.Type) -> ir.Value:
        """A place on the stack, wherever the code stands: taken once a call."""
        with self.b.goto_entry_block():
            return self.b.alloca(kind)

    def variable(self, value: ir.Value) -> ir.Value:
        place = self.alloca(value.type)
        self.b.store(value, place)
        return place

    @contextmanager
    def for_range(self, count: ir.Value) -> Iterator[ir.Value]:
        """The code inside runs for i = 0, 1, ... below `count`."""
        index, b = self.variable(I64(0)), self.b
        head, body, behind = (b.append_basic_block() for _ in range(3))
        b.branch(head)
        b.position_at_end(head)
        i = b.load(index)
        b.cbranch(b.icmp_signed("<", i, count), body, behind)
        b.position_at_end(body)
        yield i
        b.store(b.add(i, I64(1)), index)
        b.branch(head)
        b.position_at_end(behind)

    # -- memory -------------------------------------------------------------------------------

    def offset(self, address: ir.Value, count: int) -> ir.Value:
        return self.b.add(address, I64(count)) if count else address

    def raw_load(self, kind: ir.Type, address: ir.Value, align: int = 2) -> ir.Value:
        return self.b.load(self.b.inttoptr(address, kind.as_pointer()), align=align)

    def raw_store(self, value: ir.Value, address: ir.Value, align: int = 2) -> None:
        self.b.store(value, self.b.inttoptr(address, value.type.as_pointer()), align=align)

    def load(self, form: Format, address: ir.Value) -> ir.Value:
        """16 numbers as float32."""
        if form is Format.FLOAT32:
            return self.raw_load(VF32, address, 4)
        if form is Format.FLOAT16:
            return self.b.fpext(self.raw_load(VF16, address), VF32)
        return self._widen(self.raw_load(VI16, address))

    def store(self, form: Format, value: ir.Value, address: ir.Value) -> None:
        """16 float32 rounded to the format."""
        self.raw_store(self.narrow(form, value), address)

    def narrow(self, form: Format, value: ir.Value) -> ir.Value:
        if form is Format.FLOAT32:
            return value
        if form is Format.FLOAT16:
            return self.b.fptrunc(value, VF16)
        return self._to_bfloat16(value)

    def rounded(self, form: Format, value: ir.Value) -> ir.Value:
        """float32 values as they would come back from memory."""
        if form is Format.FLOAT32:
            return value
        narrow = self.narrow(form, value)
        return self.b.fpext(narrow, VF32) if form is Format.FLOAT16 else self._widen(narrow)

    def _widen(self, bits: ir.Value) -> ir.Value:
        return self.b.bitcast(self.b.shl(self.b.zext(bits, VI32), self.splat_int(16)), VF32)

    def _to_bfloat16(self, value: ir.Value) -> ir.Value:
        if self.target.has_pairs(Format.BFLOAT16):
            kind = ir.VectorType(_BFloat(), LANES)
            return self.b.bitcast(
                self.intrinsic("x86.avx512bf16.cvtneps2bf16.512", kind, value), VI16
            )
        bits = self.b.bitcast(value, VI32)
        high = self.b.lshr(bits, self.splat_int(16))
        odd = self.b.and_(high, self.splat_int(1))
        rounded = self.b.add(bits, self.b.add(odd, self.splat_int(0x7FFF)))
        # The rounding would carry a NaN with a full mantissa over to zero.
        nan = self.b.fcmp_unordered("uno", value, value)
        quiet = self.b.or_(high, self.splat_int(0x40))
        out = self.b.select(nan, quiet, self.b.lshr(rounded, self.splat_int(16)))
        return self.b.trunc(out, VI16)

    # -- arithmetic ---------------------------------------------------------------------------

    def intrinsic(self, name: str, result: ir.Type, *args: ir.Value) -> ir.Value:
        kind = ir.FunctionType(result, [a.type for a in args])
        module, name = self.b.module, f"llvm.{name}"
        function = module.globals.get(name) or ir.Function(module, kind, name)
        return self.b.call(function, args)

    def splat_int(self, value: int) -> ir.Value:
        return ir.Constant(VI32, [value] * LANES)

    def constant(self, value: float) -> ir.Value:
        return ir.Constant(VF32, [value] * LANES)

    def splat(self, scalar: ir.Value) -> ir.Value:
        kind = ir.VectorType(scalar.type, LANES)
        first = self.b.insert_element(ir.Constant(kind, ir.Undefined), scalar, I32(0))
        return self.b.shuffle_vector(first, ir.Constant(kind, ir.Undefined), self.splat_int(0))

    def fma(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        return self.intrinsic("fma.v16f32", VF32, a, b, c)

    def maximum(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.b.select(self.b.fcmp_ordered(">", a, b), a, b)

    def dot_pairs(self, acc: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        """Add the products of both halves of each 32-bit lane, bfloat16 pairs (`VI32`)."""
        kind = ir.VectorType(_BFloat(), 2 * LANES)
        a, b = self.b.bitcast(a, kind), self.b.bitcast(b, kind)
        return self.intrinsic("x86.avx512bf16.dpbf16ps.512", VF32, acc, a, b)

    def exp(self, x: ir.Value) -> ir.Value:
        """exp with a relative error below 2e-7; 0 below -87, clamped above 88."""
        small = self.b.fcmp_ordered("<", x, self.constant(-87.0))
        x = self.b.select(small, self.constant(-87.0), x)
        x = self.b.select(self.b.fcmp_ordered(">", x, self.constant(88.0)), self.constant(88.0), x)
        n = self.intrinsic("rint.v16f32", VF32, self.b.fmul(x, self.constant(1.4426950408889634)))
        r = self.fma(n, self.constant(-0.693145751953125), x)
        r = self.fma(n, self.constant(-1.428606765330187e-06), r)
        p = self.constant(1 / 720)
        for coefficient in (1 / 120, 1 / 24, 1 / 6, 0.5, 1.0, 1.0):
            p = self.fma(p, r, self.constant(coefficient))
        power = self.b.shl(self.b.fptosi(n, VI32), self.splat_int(23))
        scaled = self.b.bitcast(self.b.add(self.b.bitcast(p, VI32), power), VF32)
        return self.b.select(small, self.constant(0.0), scaled)

    def coarse_exp2(self, x: ir.Value) -> ir.Value:
        """2^x with a relative error below 5e-5, for x <= 0; 2^-126 for what is smaller."""
        x = self.maximum(x, self.constant(-126.0))
        n = self.intrinsic("rint.v16f32", VF32, x)
        r = self.b.fsub(x, n)
        p = self.constant(0.009618129107628477)  # ln(2)^4 / 4!, and so on
        for coefficient in (0.05550410866482158, 0.24022650695910072, 0.6931471805599453, 1.0):
            p = self.fma(p, r, self.constant(coefficient))
        power = self.b.shl(self.b.fptosi(n, VI32), self.splat_int(23))
        return self.b.bitcast(self.b.add(self.b.bitcast(p, VI32), power), VF32)

    # -- across lanes -------------------------------------------------------------------------

    def reduce(self, x: ir.Value, maximum: bool = False) -> ir.Value:
        """Sum or maximum of the lanes, a scalar."""
        step = LANES // 2
        while step:
            moved = self.shuffle(x, x, [(i + step) % LANES for i in range(LANES)])
            x = self.maximum(x, moved) if maximum else self.b.fadd(x, moved)
            step //= 2
        return self.b.extract_element(x, I32(0))

    def shuffle(self, a: ir.Value, b: ir.Value, lanes: Sequence[int]) -> ir.Value:
        return self.b.shuffle_vector(a, b, ir.Constant(VI32, list(lanes)))

    def fold(self, a: ir.Value, b: ir.Value, width: int) -> ir.Value:
        """Halve the runs of `width` lanes of `a`, then those of `b`, by adding their halves."""
        half = width // 2
        low = [i for i in range(2 * LANES) if i % width < half]
        high = [i + half for i in low]
        return self.b.fadd(self.shuffle(a, b, low), self.shuffle(a, b, high))

    def transpose(self, rows: Sequence[ir.Value]) -> list[ir.Value]:
        """16 vectors of 32-bit lanes as a matrix, transposed."""
        out, block = list(rows), LANES // 2
        lanes = range(LANES)
        while block:
            low = [i if not i & block else LANES + i - block for i in lanes]
            high = [i + block if not i & block else LANES + i for i in lanes]
            for i in lanes:
                if not i & block:
                    a, b = out[i], out[i + block]
                    out[i], out[i + block] = self.shuffle(a, b, low), self.shuffle(a, b, high)
            block //= 2
        return out
