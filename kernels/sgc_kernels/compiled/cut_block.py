"""The block of 64-bit integers that a step is cut by: byte offsets into it."""

(
    NUM_SEQUENCES,
    QO,  # int32, as in AttentionMeta
    KV,  # int32: where the slots of each sequence begin
    KV_ENDS,
    SLOTS,
    ORDER,  # [sequences]
    STACK,  # [sequences + 1, 4]
    PARTS,  # [2 * sequences, 4]: first and last place in `order`, first and last key
    NUM_PARTS,
    RUN,  # keys of an item at most
    NUM_ITEMS,
    NUM_ROWS,
    KV_HEADS,
    NUM_THREADS,
    POSITIONS,  # [tokens]
    FIRST_PARTIAL,  # [tokens + 1]
    CURSOR,  # [tokens]
    ITEMS,
    ROWS,
    FEW,  # sequences with at most so many tokens share parts
    NUM_PARTIALS,
    GROWS,  # 1: the last step's sequences, each a token longer; its order and parts are there
) = range(0, 22 * 8, 8)
CUT_WORDS = 22
