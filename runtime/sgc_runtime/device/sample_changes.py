"""Penalties, bias and ids held back, as entries for the kernel that changes logits."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sgc_kernels.gpu.sampling.params import Adjustments
from sgc_runtime.device.sample_rows import Ints, padded
from sgc_runtime.device.uploads import Uploads
from sgc_runtime.sampling.row import SamplingRow

Floats = NDArray[np.float64]


class Entries:
    """The ids of one row whose logits change, each once.

    Attributes:
        ids, seen, counts, bias: see `Adjustments`; numbers where all are alike.
    """

    __slots__ = ("bias", "counts", "ids", "seen")

    def __init__(self, row: SamplingRow) -> None:
        held = row.held_back_now
        seen, counts = row.seen.ids, row.counts.ids
        self.ids: NDArray[np.int64]
        self.seen: NDArray[np.int64] | int = 0
        self.counts: NDArray[np.int64] | int = 0
        self.bias: Floats | float = 0.0
        if held or len(row.bias_ids) or (len(seen) and len(counts)):
            self._join(row, held)
        elif len(seen):
            self.ids, self.seen = seen, 1
        else:
            self.ids, self.counts = counts, row.counts.counts

    def _join(self, row: SamplingRow, held: Collection[int]) -> None:
        parts = [row.seen.ids, row.counts.ids, row.bias_ids, np.array(list(held), np.int64)]
        self.ids, at = np.unique(np.concatenate(parts), return_inverse=True)
        seen, counted, biased, back = np.split(at, np.cumsum([len(p) for p in parts])[:-1])
        self.seen = np.zeros(len(self.ids), np.int64)
        self.seen[seen] = 1
        self.counts = np.zeros(len(self.ids), np.int64)
        self.counts[counted] = row.counts.counts
        self.bias = np.zeros(len(self.ids))
        self.bias[biased] = row.bias
        self.bias[back] = -np.inf


def changes_of(
    rows: Sequence[SamplingRow], at: Sequence[int], count: int, uploads: Uploads
) -> Adjustments:
    """What changes in `count` rows of logits, of which `rows` are those `at` (ascending)."""
    entries = [Entries(row) for row in rows]
    lengths = [len(e.ids) for e in entries]
    total, size, head = sum(lengths), padded(sum(lengths)), padded(count + 1)
    staged = uploads.stage(4 * head + 4 * size)
    starts = np.zeros(count + 1, np.int64)
    starts[np.array(at, np.int64) + 1] = lengths
    staged[: count + 1] = starts.cumsum()
    _write_penalties(staged[head : 4 * head].reshape(3, head), rows, at)
    block = staged[4 * head :].reshape(4, size)[:, :total]
    _fill(block[0], [e.ids for e in entries], lengths)
    _fill(block[1], [e.seen for e in entries], lengths)
    _fill(block[2], [e.counts for e in entries], lengths)
    _fill(block[3].view(np.float32), [e.bias for e in entries], lengths)
    sent = uploads.send()
    return _adjustments(sent, count, total, head, size)


def _fill(out: NDArray[Any], parts: Sequence[NDArray[Any] | float], lengths: Sequence[int]) -> None:
    """The rows' parts behind each other; of those that are a number, it fills the row's length."""
    alike = [not isinstance(part, np.ndarray) for part in parts]
    with np.errstate(over="ignore"):
        if all(alike):
            out[:] = np.repeat(np.array(parts), lengths)
            return
        if any(alike):
            parts = [np.broadcast_to(p, n) for p, n in zip(parts, lengths, strict=True)]
        np.concatenate(parts, out=out, casting="unsafe")


def _write_penalties(out: Ints, rows: Sequence[SamplingRow], at: Sequence[int]) -> None:
    numbers = out.view(np.float32)
    numbers[0], numbers[1:] = 1.0, 0.0
    given = [
        (r.params.repetition_penalty, r.params.frequency_penalty, r.params.presence_penalty)
        for r in rows
    ]
    with np.errstate(over="ignore"):
        numbers[:, np.array(at, np.int64)] = np.array(given).T


def _adjustments(sent: torch.Tensor, count: int, total: int, head: int, size: int) -> Adjustments:
    repetition, frequency, presence = (
        sent[i * head :][:count].view(torch.float32) for i in range(1, 4)
    )
    ids, seen, counts, bias = (sent[4 * head + i * size :][:total] for i in range(4))
    return Adjustments(
        starts=sent[: count + 1],
        ids=ids,
        seen=seen,
        counts=counts,
        bias=bias.view(torch.float32),
        repetition=repetition,
        frequency=frequency,
        presence=presence,
        before=torch.empty(total, device=sent.device),
    )
