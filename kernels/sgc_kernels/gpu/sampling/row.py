"""What the functions of a draw know of their row: tuples that are passed on as they are."""

from __future__ import annotations

from typing import NamedTuple

import triton.language as tl


class Row(NamedTuple):
    """A row of logits and its summary.

    Attributes:
        start: where its logits begin.
        mask: where the words of its mask begin, and `bound` whether it has one.
        chunk_max, chunk_sum: where its chunks' largest logits and sums of weights begin.
        scale: what differences of logits are multiplied by in exp2; 0 where the row is greedy.
        top: its largest allowed logit.
    """

    start: tl.tensor
    mask: tl.tensor
    bound: tl.tensor
    chunk_max: tl.tensor
    chunk_sum: tl.tensor
    scale: tl.tensor
    top: tl.tensor


class Cuts(NamedTuple):
    """The filters of a row (see `RowParams`)."""

    top_k: tl.tensor
    top_p: tl.tensor
    min_p: tl.tensor


class Noise(NamedTuple):
    """What the noise of a row is a function of (see `RowParams`)."""

    seed: tl.tensor
    step: tl.tensor


class Excluded(NamedTuple):
    """Where the ids begin that are not to be drawn, and how many these are."""

    ids: tl.tensor
    count: tl.tensor
