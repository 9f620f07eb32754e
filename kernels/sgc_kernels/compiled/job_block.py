"""The block of 64-bit integers that says what a norm, activation or rotary turn works on.

Byte offsets into it; an operation reads those that it needs. Threads that run an operation on the
same block take its rows by a counter.
"""

(
    TAKEN,  # counter: chunks taken so far
    ROWS,
    CHUNK,  # rows of a chunk
    WIDTH,  # numbers of a row
    X,  # address; of queries, keys and values of all tokens in a rotary turn
    OUT,
    STRIDE,  # bytes from one row of x to the next
    RESIDUAL,
    WEIGHT,
    EPS,  # a float32
    COS,
    SIN,
    SLOTS,  # [rows] int64
    K_CACHE,
    V_CACHE,
    Q_HEADS,
    KV_HEADS,
) = range(0, 17 * 8, 8)
JOB_WORDS = 17
