"""The walks of the trie as kernels for the compiler; each takes the address of a job.

A job is a block of 64-bit integers; the names below are byte offsets into it.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from sgc_kernels.compiled.lanes import I1, I16, I32, I64, LANES, Emitter
from sgc_kernels.compiled.memory import load_int, load_int32, store_int, store_int32
from sgc_kernels.compiled.translate import emitted, emitted_int, kernel
from sgc_kernels.masks.trie_table import UNKNOWN

(
    EDGE,  # addresses of the trie's arrays
    SKIP,
    TOKEN,
    ROWS,  # address of the transitions
    STACK,  # address of a state (and count) a level
    OUT,  # address of the mask, or of the counts
    NODE,  # where to go on
    SPAN,
    SPANS,  # address
    NUM_SPANS,
    ALIASES,  # address
    NUM_ALIASES,
    UNKNOWN_STATE,  # out: the state whose row is to be made, or -1
    NUM_NODES,
    GOING_ON,
    NODES,  # out: found nodes, and the characters before each
    BEFORE,
    FOUND,  # out: how many
    HIGH,  # most characters of a run
    ROW_OF,  # address of the row of each state
    STARTS,  # address: for each byte, whether a node is kept that it leads to
    LOW,  # least characters before a kept node
) = range(0, 22 * 8, 8)
JOB_WORDS = 22

(LOGITS, MASKS, NUM_ROWS, NUM_COLUMNS, LOGITS_STRIDE, MASKS_STRIDE, ROW_NUMBERS) = range(0, 56, 8)
APPLY_WORDS = 7


@emitted
def store_int16(e: Emitter, address: ir.Value, value: ir.Value) -> None:
    e.raw_store(e.b.trunc(value, I16), address, 2)


@emitted_int
def load_int16(e: Emitter, address: ir.Value) -> ir.Value:
    return e.b.zext(e.raw_load(I16, address, 2), I64)


@emitted_int
def load_word(e: Emitter, address: ir.Value) -> ir.Value:
    return e.b.zext(e.raw_load(I32, address, 4), I64)


@emitted_int
def bit_of(e: Emitter, words: ir.Value, index: ir.Value) -> ir.Value:
    word = e.raw_load(I32, e.b.add(words, e.b.shl(e.b.lshr(index, I64(5)), I64(2))), 4)
    return e.b.and_(e.b.lshr(e.b.zext(word, I64), e.b.and_(index, I64(31))), I64(1))


@emitted
def or_bit(e: Emitter, words: ir.Value, index: ir.Value, bit: ir.Value) -> None:
    """Set bit `index` of a mask where `bit` is 1."""
    address = e.b.add(words, e.b.shl(e.b.lshr(index, I64(5)), I64(2)))
    moved = e.b.shl(e.b.trunc(bit, I32), e.b.trunc(e.b.and_(index, I64(31)), I32))
    e.raw_store(e.b.or_(e.raw_load(I32, address, 4), moved), address, 4)


def walk(job: int) -> None:
    """See `reference.walk`; stops where a row is unknown, and goes on there when called again."""
    edges, skips, tokens = load_int(job + EDGE), load_int(job + SKIP), load_int(job + TOKEN)
    rows, stack, words = load_int(job + ROWS), load_int(job + STACK), load_int(job + OUT)
    spans, num_spans = load_int(job + SPANS), load_int(job + NUM_SPANS)
    span, node, row_of = load_int(job + SPAN), load_int(job + NODE), load_int(job + ROW_OF)
    while span < num_spans:
        here = spans + 12 * span
        end = load_int32(here + 4)
        if node < 0:
            node = load_int32(here)
            if node < end:  # the arrays of an empty trie hold nothing
                level = load_int32(edges + 4 * node) // 256
                store_int32(stack + 4 * level, load_int32(here + 8))
        while node < end:
            edge = load_int32(edges + 4 * node)
            at = stack + 4 * (edge // 256)
            state = load_int32(at)
            row = rows + 1024 * load_int32(row_of + 4 * state)
            following = load_int32(row + 4 * (edge % 256))
            if following >= 0:
                store_int32(at + 4, following)
                or_bit(words, load_int32(tokens + 4 * node), 1)
                node += 1
            else:
                if following == UNKNOWN:
                    store_int(job + NODE, node)
                    store_int(job + SPAN, span)
                    store_int(job + UNKNOWN_STATE, state)
                    return
                node = load_int32(skips + 4 * node)
        node = -1
        span += 1
    aliases = load_int(job + ALIASES)
    for i in range(load_int(job + NUM_ALIASES)):
        allowed = bit_of(words, load_int32(aliases + 8 * i))
        or_bit(words, load_int32(aliases + 8 * i + 4), allowed)
    store_int(job + UNKNOWN_STATE, -1)


@kernel
def _keep_node(job: int, found: int, node: int, before: int) -> int:
    """Put a node among the found ones; how many they are then."""
    store_int32(load_int(job + NODES) + 4 * found, node)
    store_int32(load_int(job + BEFORE) + 4 * found, before)
    return found + 1


def scan(job: int) -> None:
    """See `reference.scan`; the table is in ROWS, the stack holds state * 65536 + count a level."""
    edges, skips, tokens = load_int(job + EDGE), load_int(job + SKIP), load_int(job + TOKEN)
    table, stack, counts = load_int(job + ROWS), load_int(job + STACK), load_int(job + OUT)
    going_on, end = load_int(job + GOING_ON), load_int(job + NUM_NODES)
    node, found = load_int(job + NODE), 0
    if node < end:
        store_int32(stack + 4 * (load_int32(edges + 4 * node) // 256), 0)
    while node < end:
        edge = load_int32(edges + 4 * node)
        at = stack + 4 * (edge // 256)
        here = load_int32(at)
        following = load_int32(table + 1024 * (here // 65536) + 4 * (edge % 256))
        if following >= 0:
            if going_on > 0 and here < 65536:
                found = _keep_node(job, found, node, here)
            store_int32(at + 4, following + here % 65536)
            store_int16(counts + 2 * load_int32(tokens + 4 * node), here + 1)
            node += 1
        else:
            if here < 65536:
                found = _keep_node(job, found, node, here)
            node = load_int32(skips + 4 * node)
    aliases = load_int(job + ALIASES)
    for i in range(load_int(job + NUM_ALIASES)):
        count = load_int16(counts + 2 * load_int32(aliases + 8 * i))
        store_int16(counts + 2 * load_int32(aliases + 8 * i + 4), count)
    store_int(job + FOUND, found)


def run(job: int) -> None:
    """See `reference.run`; table and stack as in `scan`."""
    edges, skips, tokens = load_int(job + EDGE), load_int(job + SKIP), load_int(job + TOKEN)
    table, stack, words = load_int(job + ROWS), load_int(job + STACK), load_int(job + OUT)
    going_on, high, found = load_int(job + GOING_ON), load_int(job + HIGH), 0
    starts, low = load_int(job + STARTS), load_int(job + LOW)
    for span in range(load_int(job + NUM_SPANS)):
        node = load_int32(load_int(job + SPANS) + 8 * span)
        end = load_int32(load_int(job + SPANS) + 8 * span + 4)
        if node < end:
            store_int32(stack + 4 * (load_int32(edges + 4 * node) // 256), 0)
        while node < end:
            edge = load_int32(edges + 4 * node)
            at = stack + 4 * (edge // 256)
            here = load_int32(at)
            following = load_int32(table + 1024 * (here // 65536) + 4 * (edge % 256))
            if following >= 0:
                if going_on > 0 and low <= here < 65536:
                    if load_int32(starts + 4 * (edge % 256)) > 0:
                        found = _keep_node(job, found, node, here)
                if here % 65536 < high:
                    store_int32(at + 4, following + here % 65536)
                    or_bit(words, load_int32(tokens + 4 * node), 1)
                    node += 1
                else:
                    node = load_int32(skips + 4 * node)
            else:
                if low <= here < 65536:
                    if load_int32(starts + 4 * (edge % 256)) > 0:
                        found = _keep_node(job, found, node, here)
                node = load_int32(skips + 4 * node)
    store_int(job + FOUND, found)


def make_apply(num_bytes: int, minus_infinity: int) -> Callable[[int], None]:
    """See `apply.apply_token_mask`, for numbers of `num_bytes` and their bits of -infinity."""
    kind = {2: I16, 4: I32}[num_bytes]
    vector = ir.VectorType(kind, LANES)

    @emitted
    def keep_lanes(e: Emitter, address: ir.Value, bits: ir.Value) -> None:
        """Of 16 numbers those whose bit is set."""
        lanes = e.b.bitcast(e.b.trunc(bits, I16), ir.VectorType(I1, LANES))
        nothing = ir.Constant(vector, [minus_infinity] * LANES)
        kept = e.b.select(lanes, e.raw_load(vector, address, num_bytes), nothing)
        e.raw_store(kept, address, num_bytes)

    @emitted
    def drop(e: Emitter, address: ir.Value) -> None:
        e.raw_store(ir.Constant(kind, minus_infinity), address, num_bytes)

    def apply(job: int) -> None:
        logits, masks = load_int(job + LOGITS), load_int(job + MASKS)
        rows, columns = load_int(job + NUM_ROWS), load_int(job + NUM_COLUMNS)
        stride, mask_stride = load_int(job + LOGITS_STRIDE), load_int(job + MASKS_STRIDE)
        for row in range(rows):
            line = logits + load_int(load_int(job + ROW_NUMBERS) + 8 * row) * stride
            words = masks + row * mask_stride
            for word in range(columns // 32):
                bits = load_word(words + 4 * word)
                if bits != 4294967295:
                    at = line + 32 * num_bytes * word
                    keep_lanes(at, bits)
                    keep_lanes(at + 16 * num_bytes, bits // 65536)
            for column in range(columns // 32 * 32, columns):
                if bit_of(words, column) == 0:
                    drop(line + num_bytes * column)

    return apply
