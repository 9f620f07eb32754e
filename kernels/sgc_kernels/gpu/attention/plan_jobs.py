"""Jobs of the compiled planner: blocks of 64-bit integers, the byte offsets of what they hold.

Arrays that a job names are int32, scratch is int64.
"""

from __future__ import annotations

(TABLE, WIDTH, ROWS, LENGTHS, NUM_TOKENS, OUT_LCP, OUT_ORDER, SCRATCH) = range(0, 64, 8)
SHARE_WORDS = 8
SHARE_SCRATCH = 11  # words a token, and a few more

(
    LCP,
    LENS,
    NUM_ROWS,
    ROOM,
    WINDOW,  # 0: none
    MOST_ROWS,  # of a block
    LEAST_SHARED,
    GROUP,
    FEW_ROWS,
    OWN_ROWS,
    SPANS,  # [2 * rows, 6]
    STACK,  # scratch
    NUM_SPANS,  # out, as all that follows to here
    NUM_WIDE,
    LARGEST_WIDE,  # rows
    WIDE_TOKENS,
    NUM_NARROW,
    NARROW_TOKENS,
    OWN_TOKENS,
    OWN_SQUARES,
    WIDE_SIZE,  # tokens of a piece
    NARROW_SIZE,
    OWN_STEP,
    MAX_PARTIALS,
    MOST_WIDE,  # items
    MOST_FEW,
    MOST_OWN,
    PIECES,  # scratch, [spans] each: pieces, the size of one, partial results above
    WIDE_ITEMS,  # out: how many, then where they go
    FEW_ITEMS,
    OWN_ITEMS,
    ORDER,
    PLACES,
    ENDS,
) = range(0, 34 * 8, 8)
PLAN_WORDS = 34
STACK_SCRATCH = 8  # words a row, and a few more
PIECES_SCRATCH = 3  # words a span
