"""Penalties, bias and ids held back, as entries for the kernel that changes logits."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from sgc_kernels.gpu.sampling.params import Adjustments
from sgc_runtime.device.sample_rows import Ints, padded
from sgc_runtime.device.uploads import Uploads
from sgc_runtime.sampling.row import SamplingRow

Floats = NDArray[np.float64]


class Entries(NamedTuple):
    """The ids of one row whose logits change, each once; see `Adjustments`. Numbers where all are
    alike."""

    ids: NDArray[np.int64]
    seen: NDArray[np.int64] | int
    counts: NDArray[np.int64] | int
    bias: Floats | float


def entries_of(row: SamplingRow) -> Entries:
    """What changes now."""
    held, p = row.held_back_now if row.held_back else (), row.params
    repeats, counts = p.repetition_penalty != 1.0, p.frequency_penalty or p.presence_penalty
    if sum(map(bool, (held, len(row.bias_ids), repeats, counts))) > 1:
        return _joined(row, held)
    if held:
        return Entries(np.array(list(held), np.int64), 0, 0, -np.inf)
    if repeats:
        return Entries(row.seen.ids, 1, 0, 0.0)
    if counts:
        return Entries(row.counts.ids, 0, row.counts.counts, 0.0)
    return Entries(row.bias_ids, 0, 0, row.bias)


def _joined(row: SamplingRow, held: Collection[int]) -> Entries:
    parts = [row.seen.ids, row.counts.ids, row.bias_ids, np.array(list(held), np.int64)]
    ids, at = np.unique(np.concatenate(parts), return_inverse=True)
    in_seen, in_counts, in_bias, in_held = np.split(at, np.cumsum([len(p) for p in parts])[:-1])
    seen, counts = np.zeros((2, len(ids)), np.int64)
    seen[in_seen], counts[in_counts] = 1, row.counts.counts
    bias = np.zeros(len(ids))
    bias[in_bias], bias[in_held] = row.bias, -np.inf
    return Entries(ids, seen, counts, bias)


def changes_of(
    rows: Sequence[SamplingRow], at: Sequence[int], count: int, uploads: Uploads
) -> Adjustments:
    """What changes in `count` rows of logits, of which `rows` are those `at` (ascending)."""
    entries = [entries_of(row) for row in rows]
    ids, seen, counts, bias = zip(*entries, strict=True)
    lengths = [len(part) for part in ids]
    total, size, head = sum(lengths), padded(sum(lengths)), padded(count + 1)
    staged = uploads.stage(4 * head + 4 * size)
    starts = np.zeros(count + 1, np.int64)
    starts[np.array(at, np.int64) + 1] = lengths
    staged[: count + 1] = starts.cumsum()
    _write_penalties(staged[head : 4 * head].reshape(3, head), rows, at)
    block = staged[4 * head :].reshape(4, size)[:, :total]
    for out, parts in zip(block, (ids, seen, counts), strict=False):
        _fill(out, parts, lengths)
    _fill(block[3].view(np.float32), bias, lengths)
    sent = uploads.send()
    return _adjustments(sent, count, total, head, size)


def _fill(out: NDArray[Any], parts: Sequence[NDArray[Any] | float], lengths: Sequence[int]) -> None:
    """The rows' parts behind each other; of those that are a number, it fills the row's length."""
    kinds = {type(part) is np.ndarray for part in parts}
    with np.errstate(over="ignore"):
        if kinds == {False}:
            out[:] = np.repeat(np.array(parts), lengths) if len({*parts}) > 1 else parts[0]
            return
        if len(kinds) > 1:
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
