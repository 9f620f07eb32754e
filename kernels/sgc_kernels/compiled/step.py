"""The block of 64-bit integers that tells the compiled kernels where everything of a step lies.

Numbers here are byte offsets into that block, into an item, or into a thread's scratch memory.
"""

from __future__ import annotations

from sgc_kernels.compiled.target import KEYS, Format, Target

(
    Q,  # [tokens, heads, head_dim]
    K,  # [slots, kv_heads, head_dim]
    V,
    OUT,  # as q
    ITEMS,  # [items, ITEM] int64
    UNITS,  # items * kv_heads
    KV_HEADS,
    HEADS,
    ROWS,  # [rows of all items, 2] int64: token, and number of its partial result or -1
    SLOTS,  # int64
    POSITIONS,  # [tokens] int64: of each token in its context
    WINDOW,
    STRIDE,  # bytes from one slot to the next
    PARTIAL_SUMS,  # [partials, heads, head_dim] float32
    PARTIAL_STATE,  # [partials, heads, 2] float32: maximum, sum of weights
    SCRATCH,
    SCALE,  # a float32
    FIRST_PARTIAL,  # [tokens + 1] int64
    TOKENS,
    THREADS,  # counter: threads that came so far
    COUNTER,  # counter: units or tokens taken so far
) = range(0, 21 * 8, 8)
STEP_WORDS = 21

ITEM = 5  # first row, tokens, first slot, keys, position of the first key

MIN_SHARED = 32  # keys in common from which a part of its own pays
MIN_RUN = 128  # keys of an item at least, where items are cut for the threads' sake
UNITS_A_THREAD = 6  # items a thread should find, so that all end at about the same time

_BLOCK_ROWS = 96  # rows of an item at most, about


class Layout:
    """Sizes of an item, and where a thread keeps what while it computes one."""

    def __init__(self, target: Target, form: Format, head_dim: int, group: int) -> None:
        self.max_tokens = max(1, _BLOCK_ROWS // group)
        self.few_tokens = 0 if group > 4 else max(1, 4 // group)
        self.max_rows = _up(self.max_tokens * group, target.tile_rows)
        lines = head_dim // 2 if target.has_pairs(form) else head_dim
        self.queries = 0
        self.scores = self.queries + _up(self.max_rows * lines * 4)
        self.sums = self.scores + _up(max(target.tile_rows * KEYS, 4 * 256) * 4)
        self.state = self.sums + _up(self.max_rows * head_dim * 4)
        self.keys = self.state + _up(3 * self.max_rows * 4)
        self.values = self.keys + _up(lines * KEYS * 4)
        self.scratch_bytes = self.values + _up(KEYS * head_dim * 4)


def _up(count: int, unit: int = 64) -> int:
    return -(-count // unit) * unit
