"""Log-probabilities of ids under some rows of the logits, and the likeliest ids beside them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from sgc_kernels.gpu.sampling.select import SamplingKernels
from sgc_runtime.device.sample_output import Layout
from sgc_runtime.device.sample_rows import padded
from sgc_runtime.device.uploads import Uploads
from sgc_runtime.engine.step_input import Positions
from sgc_runtime.sampling.row import TokenLogprobs

Numbers = NDArray[np.int64]


class RowLogprobs:
    """Of one id in each of `count` rows, and the likeliest ones.

    Args:
        num_top: how many likeliest ones of each row are wanted.
    """

    def __init__(self, layout: Layout, count: int, num_top: Sequence[int], vocab: int) -> None:
        self.count, self._num_top = count, num_top
        self._size = min(max(num_top, default=0), vocab)
        self._values = layout.floats(count * (1 + self._size))
        self._tops = layout.ints(count * self._size)

    def compute(
        self,
        kernels: SamplingKernels,
        logits: torch.Tensor,
        ids: torch.Tensor,
        memory: torch.Tensor,
    ) -> None:
        """Begin to compute them.

        Args:
            logits: `[count, vocab]`, of the model.
            ids: int32 or int64 `[count]`, on the device.
        """
        wide = (self.count, 1 + self._size)
        rows = torch.arange(self.count, device=logits.device)[:, None]
        rows = rows.expand(wide).contiguous().view(-1)
        if self._size:
            tops = logits.topk(self._size).indices
            self._tops.of(memory).copy_(tops.reshape(-1))
            ids = torch.cat([ids[:, None].long(), tops], 1).reshape(-1)
        kernels.logprobs_of(logits, rows, ids, self._values.of(memory))

    def read(self, numbers: NDArray[np.int32]) -> list[TokenLogprobs]:
        """One a row, out of the output."""
        read = self._values.floats(numbers).reshape(self.count, 1 + self._size)
        values: list[list[float]] = read.tolist()
        if not self._size:
            return [TokenLogprobs(own, ()) for (own,) in values]
        tops: list[list[int]] = self._tops.ints(numbers).reshape(self.count, self._size).tolist()
        return [
            TokenLogprobs(found[0], tuple(zip(ids[:n], found[1 : 1 + n], strict=True)))
            for found, ids, n in zip(values, tops, self._num_top, strict=True)
        ]


class Recorded:
    """Log-probabilities of ids that became known otherwise than by sampling.

    Args:
        recording: positions and their first row of the logits.
    """

    def __init__(
        self, layout: Layout, recording: Sequence[tuple[Positions, int]], vocab: int
    ) -> None:
        self._lengths = [last - first for (_, first, last), _ in recording]
        self._rows = _ranges([row for _, row in recording], self._lengths)
        parts = [request.tokens[first + 1 : last + 1] for (request, first, last), _ in recording]
        self._ids = np.concatenate(parts)
        counts: list[int] = []
        for ((request, _, _), _), length in zip(recording, self._lengths, strict=True):
            assert request.row is not None
            counts += [request.row.params.top_logprobs] * length
        self._logprobs = RowLogprobs(layout, len(self._ids), counts, vocab)

    def compute(
        self, kernels: SamplingKernels, logits: torch.Tensor, uploads: Uploads, memory: torch.Tensor
    ) -> None:
        """Begin to compute them."""
        count = len(self._ids)
        staged = uploads.stage(2 * count)
        staged[:count], staged[count:] = self._ids, self._rows
        ids, rows = uploads.send().view(2, count)
        self._logprobs.compute(kernels, _rows_of(logits, self._rows, rows), ids, memory)

    def read(self, numbers: NDArray[np.int32]) -> list[list[TokenLogprobs]]:
        """Those of each of `recording`, out of the output."""
        found = iter(self._logprobs.read(numbers))
        return [[next(found) for _ in range(length)] for length in self._lengths]


class Scores:
    """Log-probabilities of scored ids; arguments as of `Recorded`."""

    def __init__(self, layout: Layout, scoring: Sequence[tuple[Positions, int]]) -> None:
        starts = np.cumsum([0, *(last - first for (_, first, last), _ in scoring)])
        at, ids = [], []
        for ((request, first, last), _), start in zip(scoring, starts, strict=False):
            assert request.scoring is not None
            edges, targets = request.scoring.trie.edges(first, last)
            at.append(edges + start)
            ids.append(targets)
        self._counts = [len(part) for part in ids]
        self._at, self._ids = np.concatenate(at), np.concatenate(ids)
        lengths = np.diff(starts).tolist()
        self._rows = _ranges([row for _, row in scoring], lengths)
        self._values = layout.floats(len(self._ids))

    def compute(
        self, kernels: SamplingKernels, logits: torch.Tensor, uploads: Uploads, memory: torch.Tensor
    ) -> None:
        """Begin to compute them."""
        count, size = len(self._ids), padded(len(self._ids))
        staged = uploads.stage(2 * size + len(self._rows))
        staged[:count], staged[size : size + count] = self._at, self._ids
        staged[2 * size :] = self._rows
        sent = uploads.send()
        of = _rows_of(logits, self._rows, sent[2 * size :])
        ids = sent[size : size + count]
        kernels.logprobs_of(of, sent[:count], ids, self._values.of(memory))

    def read(self, numbers: NDArray[np.int32]) -> list[list[float]]:
        """Those of each of `scoring`, out of the output."""
        found = iter(self._values.floats(numbers).tolist())
        return [[next(found) for _ in range(count)] for count in self._counts]


def _ranges(firsts: Sequence[int], lengths: Sequence[int]) -> Numbers:
    parts = [np.arange(first, first + n) for first, n in zip(firsts, lengths, strict=True)]
    return np.concatenate(parts)


def _rows_of(logits: torch.Tensor, rows: Numbers, on_device: torch.Tensor) -> torch.Tensor:
    """Rows of the logits; no copy where they follow each other."""
    if len(rows) and bool((np.diff(rows) == 1).all()):
        return logits[int(rows[0]) : int(rows[-1]) + 1]
    return logits.index_select(0, on_device)
