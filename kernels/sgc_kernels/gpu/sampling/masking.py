"""Token masks applied to logits in place, for what then reads them more than once."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sgc_kernels.gpu.sampling.params import TokenMasks, num_parts
from sgc_kernels.gpu.sampling.tile import WORD, load_words, mask_of, part_words

_WARPS = 4


@triton.jit(do_not_specialize=["mask_stride"])
def _apply(
    logits: tl.tensor,
    stride: tl.tensor,
    masks: tl.tensor,
    mask_stride: tl.tensor,
    mask_rows: tl.tensor,
    VOCAB: tl.constexpr,
    WORDS: tl.constexpr,
) -> None:
    part, row = tl.program_id(0), tl.program_id(1)
    mask, bound = mask_of(masks, mask_stride, mask_rows, row, WORDS)
    word = part_words(part)
    words = load_words(mask, bound, word, WORDS)
    column = word[:, None] * WORD + tl.arange(0, WORD)[None, :]
    bit = tl.full([WORD], 1, tl.int32) << tl.arange(0, WORD)
    ruled_out = (words[:, None] & bit[None, :]) == 0
    at = logits + row.to(tl.int64) * stride + column
    nothing = tl.full([1, 1], float("-inf"), logits.dtype.element_ty)
    tl.store(at, tl.broadcast_to(nothing, column.shape), mask=ruled_out & (column < VOCAB))


def apply_masks(logits: torch.Tensor, masks: TokenMasks) -> None:
    """Make minus infinity, in place, what the mask of each row rules out.

    Args:
        logits: `[rows, vocab]` float32, bfloat16 or float16.
    """
    rows, vocab = logits.shape
    words = masks.words
    _apply[num_parts(vocab), rows](
        logits, logits.stride(0), words, words.stride(0), masks.rows,
        VOCAB=vocab, WORDS=words.shape[1], num_warps=_WARPS,
    )  # fmt: skip
