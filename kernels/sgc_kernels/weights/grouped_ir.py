"""LLVM IR of the products with weights that are integers with a scale for each group of 32.

One call is one matrix product. Tiles of 16 output columns are drawn as tickets by all threads of
torch's OpenMP team. For a tile, blocks of at most 8 rows of x pass over the groups; the integers
of a group become bfloat16 (which holds all of 8 bits exactly) and are multiplied in pairs with
vdpbf16ps, which adds up in float32; the group's sum is then scaled in float32. So the only
roundings are those of float32 sums: neither weights nor scales lose a bit. A row's result does not
depend on the rows beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

GROUP = 32
TILE = 16  # output columns, the lanes of a register
_BLOCK_ROWS = 8  # 8 sums of the group, 8 of the row, weights, x: below 32 registers
_PANEL_ROWS = 64  # rows of x that stay in the second cache while tiles pass by
_PAIRS = GROUP // 2

_DECLARATIONS = """
declare <32 x i16> @llvm.x86.avx512.permvar.hi.512(<32 x i16>, <32 x i16>)
declare <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float>, <32 x bfloat>, <32 x bfloat>)
declare <32 x bfloat> @llvm.x86.avx512bf16.cvtne2ps2bf16.512(<16 x float>, <16 x float>)
declare <16 x bfloat> @llvm.x86.avx512bf16.cvtneps2bf16.512(<16 x float>)
declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
declare float @llvm.vector.reduce.fadd.v16f32(float, <16 x float>)
declare void @GOMP_parallel(ptr, ptr, i32, i32)
"""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a tile's group lies in memory: integers, 16 scales, 16 minimums if there are any.

    Integers of 4 bits are unsigned. A 16-bit word of lane i and half h holds four of them, from
    the low end those of columns 2p + h for p = 4j, 4j + 1, 4j + 2, 4j + 3 in vector j. Integers of
    8 bits are signed, in the order (pair p, lane i, half h).

    Attributes:
        bits: 4 or 8.
        has_min: whether a minimum is added to the scaled integer.
        scale_bytes: 2 for float16, 4 for float32.
    """

    bits: int
    has_min: bool
    scale_bytes: int

    @property
    def name(self) -> str:
        """The function's name."""
        ending = "_min" if self.has_min else ""
        return f"grouped_{self.bits}bit_f{8 * self.scale_bytes}{ending}"

    @property
    def int_bytes(self) -> int:
        return TILE * GROUP * self.bits // 8

    @property
    def block_bytes(self) -> int:
        """Bytes of one group of one tile."""
        return self.int_bytes + TILE * self.scale_bytes * (2 if self.has_min else 1)


def function_name(layout: Layout, wide: bool) -> str:
    """The function of `module_text`."""
    return f"{layout.name}_wide" if wide else layout.name


def module_text(layout: Layout, wide: bool = False) -> str:
    """A module with the function `function_name(layout, wide)(shape, x, out, sums, rows, threads)`.

    shape: five int64, address of the weights, number of tiles and of groups, address of the bias
    (float32), tiles of a ticket. x `[rows, 32 * groups]` is bfloat16, out `[rows, 16 * tiles]`
    bfloat16 or, when it is `wide`, float32; both are contiguous; sums is room for
    `rows * groups` float32, used with minimums.
    """
    blocks = [_Block(layout, rows, wide).text() for rows in range(1, _BLOCK_ROWS + 1)]
    entry = _entry(layout, function_name(layout, wide))
    return "\n".join([_DECLARATIONS, *blocks, _worker(layout, wide), _sums(), entry])


class _Block:
    """The function for one tile and a fixed number of rows."""

    def __init__(self, layout: Layout, rows: int, wide: bool) -> None:
        self._layout = layout
        self._wide = wide
        self._rows = range(rows)
        self._lines: list[str] = []

    def text(self) -> str:
        self._begin()
        for pair in range(_PAIRS):
            self._weights(pair)
            for row in self._rows:
                self._multiply(pair, row)
        self._scale()
        self._end()
        return "\n".join(self._lines)

    def _emit(self, *lines: str) -> None:
        self._lines += lines

    def _begin(self) -> None:
        self._emit(
            f"define internal void @rows_{len(self._rows)}(ptr %x, ptr %w, ptr %out, i64 %out_gap,"
            " i64 %groups, ptr %sums, ptr %bias) {",
            "entry:",
            "  %start = load <16 x float>, ptr %bias, align 4",
            f"  %x_gap = mul i64 %groups, {2 * GROUP}",
        )
        for m in self._rows:
            self._address(f"x{m}", "x", f"mul i64 %x_gap, {m}")
            self._address(f"sums{m}", "sums", f"mul i64 %groups, {4 * m}")
        self._emit("  br label %group", "group:", "  %g = phi i64 [0, %entry], [%next, %group]")
        for m in self._rows:
            self._emit(f"  %total{m} = phi <16 x float> [%start, %entry], [%scaled{m}, %group]")
        self._address("wg", "w", f"mul i64 %g, {self._layout.block_bytes}")
        self._emit(f"  %xg = mul i64 %g, {2 * GROUP}", "  %sg = mul i64 %g, 4")
        for m in self._rows:
            self._emit(f"  %xg{m} = getelementptr i8, ptr %x{m}, i64 %xg")

    def _address(self, name: str, base: str, offset: str) -> None:
        self._emit(
            f"  %{name}.at = {offset}", f"  %{name} = getelementptr i8, ptr %{base}, i64 %{name}.at"
        )

    def _weights(self, pair: int) -> None:
        """`%w{pair}`: a pair of columns of 16 rows of the weight, as bfloat16."""
        if self._layout.bits == 4:
            self._from_nibbles(pair)
        else:
            self._from_bytes(pair)

    def _from_nibbles(self, pair: int) -> None:
        vector, place = divmod(pair, 4)
        index = f"%v{vector}"
        if place == 0:
            self._address(f"v{vector}.p", "wg", f"add i64 0, {64 * vector}")
            self._emit(f"  {index} = load <32 x i16>, ptr {index}.p, align 16")
        else:
            shifts = _vector("i16", [4 * place] * 32)
            self._emit(f"  %i{pair} = lshr <32 x i16> %v{vector}, {shifts}")
            index = f"%i{pair}"
        # The table holds every value twice, so that the fifth bit of the index is not looked at.
        self._emit(
            f"  %b{pair} = call <32 x i16> @llvm.x86.avx512.permvar.hi.512("
            f"<32 x i16> {_vector('i16', _bfloat16_bits() * 2)}, <32 x i16> {index})",
            f"  %w{pair} = bitcast <32 x i16> %b{pair} to <32 x bfloat>",
        )

    def _from_bytes(self, pair: int) -> None:
        for half in (0, 1):
            n = f"{pair}.{half}"
            self._address(f"v{n}.p", "wg", f"add i64 0, {32 * pair + 16 * half}")
            self._emit(
                f"  %v{n} = load <16 x i8>, ptr %v{n}.p, align 16",
                f"  %i{n} = sext <16 x i8> %v{n} to <16 x i32>",
                f"  %f{n} = sitofp <16 x i32> %i{n} to <16 x float>",
            )
        self._emit(
            f"  %w{pair} = call <32 x bfloat> @llvm.x86.avx512bf16.cvtne2ps2bf16.512("
            f"<16 x float> %f{pair}.1, <16 x float> %f{pair}.0)"
        )

    def _multiply(self, pair: int, m: int) -> None:
        n = f"{m}.{pair}"
        before = f"%sum{m}.{pair - 1}" if pair else "zeroinitializer"
        self._address(f"p{n}", f"xg{m}", f"add i64 0, {4 * pair}")
        self._emit(f"  %l{n} = load i32, ptr %p{n}, align 2")
        self._emit(*_splat(f"s{n}", "i32", f"%l{n}"))
        self._emit(
            f"  %y{n} = bitcast <16 x i32> %s{n} to <32 x bfloat>",
            f"  %sum{n} = call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512("
            f"<16 x float> {before}, <32 x bfloat> %w{pair}, <32 x bfloat> %y{n})",
        )

    def _scale(self) -> None:
        layout = self._layout
        self._per_column("scale", layout.int_bytes)
        if layout.has_min:
            self._per_column("min", layout.int_bytes + TILE * layout.scale_bytes)
        for m in self._rows:
            out = f"half{m}" if layout.has_min else f"scaled{m}"
            self._emit(_fma(out, f"%sum{m}.{_PAIRS - 1}", "%scale", f"%total{m}"))
            if layout.has_min:
                self._address(f"of_x{m}.p", f"sums{m}", "add i64 0, %sg")
                self._emit(f"  %of_x{m}.s = load float, ptr %of_x{m}.p, align 4")
                self._emit(*_splat(f"of_x{m}", "float", f"%of_x{m}.s"))
                self._emit(_fma(f"scaled{m}", f"%of_x{m}", "%min", f"%half{m}"))

    def _per_column(self, name: str, offset: int) -> None:
        """`%{name}`: 16 float32."""
        self._address(f"{name}.p", "wg", f"add i64 0, {offset}")
        if self._layout.scale_bytes == 4:
            self._emit(f"  %{name} = load <16 x float>, ptr %{name}.p, align 16")
            return
        self._emit(
            f"  %{name}.h = load <16 x half>, ptr %{name}.p, align 16",
            f"  %{name} = fpext <16 x half> %{name}.h to <16 x float>",
        )

    def _end(self) -> None:
        self._emit(
            "  %next = add i64 %g, 1",
            "  %more = icmp ult i64 %next, %groups",
            "  br i1 %more, label %group, label %done",
            "done:",
        )
        for m in self._rows:
            self._address(f"out{m}", "out", f"mul i64 %out_gap, {m}")
            if self._wide:
                self._emit(f"  store <16 x float> %scaled{m}, ptr %out{m}, align 4")
                continue
            self._emit(
                f"  %r{m} = call <16 x bfloat> @llvm.x86.avx512bf16.cvtneps2bf16.512("
                f"<16 x float> %scaled{m})",
                f"  store <16 x bfloat> %r{m}, ptr %out{m}, align 2",
            )
        self._emit("  ret void", "}")


def _vector(kind: str, values: list[int]) -> str:
    return "<" + ", ".join(f"{kind} {value}" for value in values) + ">"


def _bfloat16_bits() -> list[int]:
    """The bits of 0 to 15 as bfloat16."""
    bits = [0]
    for value in range(1, 16):
        exponent = value.bit_length() - 1
        bits.append((127 + exponent) << 7 | (value << (7 - exponent)) & 0x7F)
    return bits


def _splat(name: str, kind: str, scalar: str) -> list[str]:
    vector = f"<16 x {kind}>"
    return [
        f"  %{name}.1 = insertelement {vector} poison, {kind} {scalar}, i32 0",
        f"  %{name} = shufflevector {vector} %{name}.1, {vector} poison, "
        "<16 x i32> zeroinitializer",
    ]


def _fma(name: str, a: str, b: str, c: str) -> str:
    kind = "<16 x float>"
    return f"  %{name} = call {kind} @llvm.fma.v16f32({kind} {a}, {kind} {b}, {kind} {c})"


_SHAPE = (("w", "ptr"), ("tiles", "i64"), ("groups", "i64"), ("bias", "ptr"), ("ticket", "i64"))
_JOB = (("shape", "ptr"), ("x", "ptr"), ("out", "ptr"), ("sums", "ptr"), ("rows", "i64"))
_COUNTER = len(_JOB)  # the field behind: tiles that are taken


def _fields(base: str, fields: tuple[tuple[str, str], ...]) -> str:
    lines = []
    for i, (name, kind) in enumerate(fields):
        lines.append(f"  %{name}.field = getelementptr i64, ptr %{base}, i64 {i}")
        lines.append(f"  %{name} = load {kind}, ptr %{name}.field, align 8")
    return "\n".join(lines)


def _worker(layout: Layout, wide: bool) -> str:
    """What every thread does: take tiles until none is left."""
    tile_out = TILE * (4 if wide else 2)
    return f"""
define internal void @work(ptr %job) {{
entry:
{_fields("job", _JOB)}
{_fields("shape", _SHAPE)}
  %counter = getelementptr i64, ptr %job, i64 {_COUNTER}
  %x_gap = mul i64 %groups, {2 * GROUP}
  %sums_gap = mul i64 %groups, 4
  %out_gap = mul i64 %tiles, {tile_out}
  %tile_bytes = mul i64 %groups, {layout.block_bytes}
  br label %take
take:
  %first = atomicrmw add ptr %counter, i64 %ticket monotonic
  %some = icmp ult i64 %first, %tiles
  br i1 %some, label %begin, label %end
begin:
  %want = add i64 %first, %ticket
  %inside = icmp ult i64 %want, %tiles
  %last = select i1 %inside, i64 %want, i64 %tiles
  br label %panel
panel:
  %p = phi i64 [0, %begin], [%p_next, %panel_end]
  %p_want = add i64 %p, {_PANEL_ROWS}
  %p_inside = icmp ult i64 %p_want, %rows
  %p_last = select i1 %p_inside, i64 %p_want, i64 %rows
  br label %tile
{_tile(tile_out)}
tile_end:
  %t_next = add i64 %t, 1
  %t_more = icmp ult i64 %t_next, %last
  br i1 %t_more, label %tile, label %panel_end
panel_end:
  %p_next = add i64 %p, {_PANEL_ROWS}
  %p_more = icmp ult i64 %p_next, %rows
  br i1 %p_more, label %panel, label %take
end:
  ret void
}}"""


def _tile(tile_out: int) -> str:
    """The rows of a panel with one tile, block by block."""
    names = range(1, _BLOCK_ROWS + 1)
    cases = " ".join(f"i64 {n}, label %rows{n}" for n in names)
    calls = "\n".join(
        f"rows{n}:\n  call void @rows_{n}(ptr %xr, ptr %wt, ptr %or, i64 %out_gap, i64 %groups,"
        f" ptr %sr, ptr %bt)\n  br label %row_end"
        for n in names
    )
    return f"""tile:
  %t = phi i64 [%first, %panel], [%t_next, %tile_end]
  %wt.at = mul i64 %t, %tile_bytes
  %wt = getelementptr i8, ptr %w, i64 %wt.at
  %ot.at = mul i64 %t, {tile_out}
  %ot = getelementptr i8, ptr %out, i64 %ot.at
  %bt.at = mul i64 %t, {4 * TILE}
  %bt = getelementptr i8, ptr %bias, i64 %bt.at
  br label %row
row:
  %r = phi i64 [%p, %tile], [%r_next, %row_end]
  %xr.at = mul i64 %r, %x_gap
  %xr = getelementptr i8, ptr %x, i64 %xr.at
  %or.at = mul i64 %r, %out_gap
  %or = getelementptr i8, ptr %ot, i64 %or.at
  %sr.at = mul i64 %r, %sums_gap
  %sr = getelementptr i8, ptr %sums, i64 %sr.at
  %left = sub i64 %p_last, %r
  %full = icmp uge i64 %left, {_BLOCK_ROWS}
  %n = select i1 %full, i64 {_BLOCK_ROWS}, i64 %left
  switch i64 %n, label %row_end [{cases}]
{calls}
row_end:
  %r_next = add i64 %r, %n
  %r_more = icmp ult i64 %r_next, %p_last
  br i1 %r_more, label %row, label %tile_end"""


def _sums() -> str:
    """The sum of each group of x, in float32: what the minimums are multiplied with."""
    ones = "<" + ", ".join(["bfloat 1.0"] * GROUP) + ">"
    return f"""
define internal void @sum_groups(ptr %x, ptr %sums, i64 %count) {{
entry:
  br label %group
group:
  %g = phi i64 [0, %entry], [%next, %group]
  %at = mul i64 %g, {2 * GROUP}
  %p = getelementptr i8, ptr %x, i64 %at
  %v = load <32 x bfloat>, ptr %p, align 2
  %d = call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(
    <16 x float> zeroinitializer, <32 x bfloat> %v, <32 x bfloat> {ones})
  %s = call reassoc float @llvm.vector.reduce.fadd.v16f32(float 0.0, <16 x float> %d)
  %to = getelementptr float, ptr %sums, i64 %g
  store float %s, ptr %to, align 4
  %next = add i64 %g, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %group, label %done
done:
  ret void
}}"""


def _entry(layout: Layout, name: str) -> str:
    put = "\n".join(
        f"  %to{i} = getelementptr i64, ptr %job, i64 {i}\n"
        f"  store {kind} %{field}, ptr %to{i}, align 8"
        for i, (field, kind) in enumerate(_JOB)
    )
    sums = "  call void @sum_groups(ptr %x, ptr %sums, i64 %count)" if layout.has_min else ""
    return f"""
define void @{name}(ptr %shape, ptr %x, ptr %out, ptr %sums, i64 %rows, i32 %threads) {{
entry:
  %job = alloca [{_COUNTER + 1} x i64], align 64
{put}
  %counter = getelementptr i64, ptr %job, i64 {_COUNTER}
  store i64 0, ptr %counter, align 8
  %groups.p = getelementptr i64, ptr %shape, i64 2
  %groups = load i64, ptr %groups.p, align 8
  %count = mul i64 %rows, %groups
{sums}
  %alone = icmp eq i32 %threads, 1
  br i1 %alone, label %self, label %team
self:
  call void @work(ptr %job)
  ret void
team:
  call void @GOMP_parallel(ptr @work, ptr %job, i32 %threads, i32 0)
  ret void
}}
"""
