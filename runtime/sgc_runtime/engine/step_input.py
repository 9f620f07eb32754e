"""Tensors of one step out of the scheduler's chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from sgc_runtime.cache.radix_tree import Slots
from sgc_runtime.engine.request import Request
from sgc_runtime.engine.scheduler import Chunk
from sgc_runtime.model.forward import ForwardBatch


@dataclass(frozen=True, slots=True)
class StepInput:
    """A batch and whose logits come out of it.

    The rows of the logits are first one for each of `sampling`, then for each (request, first,
    last) of `scoring` one for each position in `[first, last)`.
    """

    batch: ForwardBatch
    sampling: list[Request]
    scoring: list[tuple[Request, int, int]]


def make_step_input(chunks: Sequence[Chunk], device: torch.device) -> StepInput:
    """Pack the chunks in order, without padding."""
    lengths = np.array([c.end - c.start for c in chunks], np.int64)
    rows = np.concatenate([[0], np.cumsum(lengths)])
    sequences = [sequence for c in chunks for sequence in _sequences(c)]
    sampling, scoring, logit_rows = _logit_rows(chunks, rows)
    batch = ForwardBatch(
        input_ids=_packed([c.request.tokens[c.start : c.end] for c in chunks], device),
        positions=_packed([_positions(c) for c in chunks], device),
        out_slots=_packed([c.request.slots[c.start : c.end] for c in chunks], device),
        qo_indptr=_indptr([count for count, _ in sequences]),
        kv_indptr=_indptr([len(slots) for _, slots in sequences]),
        kv_slots=_packed([slots for _, slots in sequences], device),
        logit_rows=_packed(logit_rows, device),
    )
    return StepInput(batch, sampling, scoring)


def _sequences(chunk: Chunk) -> list[tuple[int, Slots]]:
    """Numbers of new tokens and slots of the whole context: one sequence for a generation; for a
    scoring one for each run of tokens that follow each other, with the slots of its ancestors in
    the trie (other runs of the same step among them: all keys and values of a step are stored
    before attention reads them)."""
    request = chunk.request
    if request.scoring is None:
        return [(chunk.end - chunk.start, request.slots[: chunk.end])]
    return request.scoring.trie.sequences(chunk.start, chunk.end, request.slots)


def _positions(chunk: Chunk) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    scoring = chunk.request.scoring
    if scoring is None:
        return np.arange(chunk.start, chunk.end)
    return scoring.trie.positions[chunk.start : chunk.end]


_Rows = list[np.ndarray[tuple[int], np.dtype[np.int64]]]


def _logit_rows(
    chunks: Sequence[Chunk], rows: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> tuple[list[Request], list[tuple[Request, int, int]], _Rows]:
    sampling, scoring = [], []
    last_rows, score_rows = [], []
    for chunk, row in zip(chunks, rows[:-1].tolist(), strict=True):
        request = chunk.request
        if request.scoring is None:
            if chunk.end == request.num_target:
                sampling.append(request)
                last_rows.append(np.array([row + chunk.end - chunk.start - 1]))
            continue
        first = max(chunk.start, request.scoring.trie.first_row)
        if first < chunk.end:
            scoring.append((request, first, chunk.end))
            score_rows.append(np.arange(first, chunk.end) + (row - chunk.start))
    return sampling, scoring, last_rows + score_rows


def _packed(
    parts: Sequence[np.ndarray[tuple[int], np.dtype[np.integer]]], device: torch.device
) -> torch.Tensor:
    joined = np.concatenate(parts) if parts else np.empty(0, np.int64)
    return torch.from_numpy(joined.astype(np.int64, copy=False)).to(device)


def _indptr(lengths: Sequence[int]) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
