"""Tensors of one step out of the scheduler's chunks.

While the same sequences decode, a step's tensors grow out of the last step's: what is done for
each then does not grow with contexts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from sgc_runtime.cache.radix_tree import Ids, Slots
from sgc_runtime.engine.request import Request, State
from sgc_runtime.engine.scheduler import Chunk
from sgc_runtime.model.forward import ForwardBatch

Positions = tuple[Request, int, int]
Pending = Mapping[Request, int]
_NO_IDS: Pending = {}


@dataclass(frozen=True, slots=True)
class StepInput:
    """A batch and whose logits come out of it.

    The rows of the logits are first one for each of `sampling`, then for each (request, first,
    last) of `recording` (forced ids whose log-probabilities are asked for), then of `scoring`, one
    for each position in `[first, last)`.
    """

    batch: ForwardBatch
    sampling: list[Request]
    scoring: list[Positions]
    recording: list[Positions] = field(default_factory=list)


class StepInputs:
    """Makes the input of each step of one engine; equal to `make_step_input`, but for room behind
    the slots of a sequence (`ForwardBatch.kv_ends`).

    Args:
        room: decode steps after which the slots of their contexts are gathered anew.
    """

    def __init__(self, device: torch.device, room: int = 128) -> None:
        self._device, self._room = device, room
        self._rows: _DecodingRows | None = None

    def make(self, chunks: Sequence[Chunk], pending: Pending = _NO_IDS) -> StepInput:
        """Pack the chunks in order, without padding.

        Args:
            pending: the last ids of chunks that are pending.
        """
        rows = self._rows
        if rows is not None and rows.can_grow(chunks):
            return rows.grown(pending)
        self._rows = None
        if not _all_decode(chunks):
            return make_step_input(chunks, self._device, pending)
        self._rows = _DecodingRows(chunks, self._device, self._room)
        return self._rows.grown(pending)


def _all_decode(chunks: Sequence[Chunk]) -> bool:
    """Whether each chunk is the newest token of a running generation. The slots before it stay
    what they are as long as it runs."""
    return bool(chunks) and all(
        c.request.state is State.RUNNING
        and c.request.scoring is None
        and not c.request.closing
        and c.start == c.end - 1
        and c.end == c.request.num_ahead
        for c in chunks
    )


class _DecodingRows:
    """Running generations with the slots of their contexts, beside each other with room behind.

    Made before the first step, without the slots of its tokens.
    """

    def __init__(self, chunks: Sequence[Chunk], device: torch.device, room: int) -> None:
        self._requests = [c.request for c in chunks]
        self._next = [c.start for c in chunks]
        self._device = device
        self._room = room
        self._key = object()  # not this object: attention's memory outlives its rows
        # The tensors of a step are its own only until the next: the model has computed by then.
        before = np.array([c.start for c in chunks], np.int64)
        self._indptr = torch.from_numpy(
            np.concatenate([[0], np.cumsum(before + room)]).astype(np.int32)
        )
        self._ends = self._indptr[:-1] + torch.from_numpy(before.astype(np.int32))
        self._positions = torch.from_numpy(before - 1).to(device)
        self._slots = _packed([_with_room(c, room) for c in chunks], device)
        self._qo_indptr = torch.arange(len(chunks) + 1, dtype=torch.int32)
        self._logit_rows = torch.arange(len(chunks), device=device)

    def can_grow(self, chunks: Sequence[Chunk]) -> bool:
        """Whether the step is of the same rows; each then has one token more."""
        if self._room == 0 or [c.request for c in chunks] != self._requests:
            return False
        return [c.start for c in chunks] == self._next and _all_decode(chunks)

    def grown(self, pending: Pending) -> StepInput:
        """The input of the next step."""
        self._room -= 1
        self._next = [start + 1 for start in self._next]
        places, requests = self._ends.to(self._device, torch.int64), self._requests
        ids = _numbers(
            [pending[r] if r.pending else r.tokens[r.num_target - 1] for r in requests],
            self._device,
        )
        out = _numbers([r.slots[r.num_ahead - 1] for r in requests], self._device)
        self._slots.index_copy_(0, places, out)
        self._ends += 1
        self._positions += 1
        batch = ForwardBatch(
            input_ids=ids,
            positions=self._positions,
            out_slots=out,
            qo_indptr=self._qo_indptr,
            kv_indptr=self._indptr,
            kv_slots=self._slots,
            logit_rows=self._logit_rows,
            kv_ends=self._ends,
            grows=self._key,
        )
        return StepInput(batch, list(requests), [])


def _numbers(values: Sequence[int], device: torch.device) -> torch.Tensor:
    return torch.from_numpy(np.array(values, np.int64)).to(device)


def _with_room(chunk: Chunk, room: int) -> Slots:
    slots = np.zeros(chunk.start + room, np.int64)
    slots[: chunk.start] = chunk.request.slots[: chunk.start]
    return slots


def make_step_input(
    chunks: Sequence[Chunk], device: torch.device, pending: Pending = _NO_IDS
) -> StepInput:
    """Pack the chunks in order, without padding; see `StepInputs.make`."""
    lengths = np.array([c.end - c.start for c in chunks], np.int64)
    rows = np.concatenate([[0], np.cumsum(lengths)])
    sequences = [sequence for c in chunks for sequence in _sequences(c)]
    wanted = WantedRows()
    for chunk, row in zip(chunks, rows[:-1].tolist(), strict=True):
        wanted.add(chunk, row)
    batch = ForwardBatch(
        input_ids=_packed([_ids(c, pending) for c in chunks], device),
        positions=_packed([_positions(c) for c in chunks], device),
        out_slots=_packed([c.request.slots[c.start : c.end] for c in chunks], device),
        qo_indptr=_indptr([count for count, _ in sequences]),
        kv_indptr=_indptr([len(slots) for _, slots in sequences]),
        kv_slots=_packed([slots for _, slots in sequences], device),
        logit_rows=_packed(wanted.rows, device),
    )
    return StepInput(batch, wanted.sampling, wanted.scoring, wanted.recording)


def _ids(chunk: Chunk, pending: Pending) -> Ids:
    request, start, end = chunk
    if not chunk.is_pending:
        return request.tokens[start:end]
    return np.append(request.tokens[start : end - 1], np.int32(pending[request]))


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


class WantedRows:
    """The rows of a step whose logits are wanted, for what; see `StepInput`."""

    def __init__(self) -> None:
        self.sampling: list[Request] = []
        self.recording: list[Positions] = []
        self.scoring: list[Positions] = []
        self._last_rows: _Rows = []
        self._record_rows: _Rows = []
        self._score_rows: _Rows = []

    @property
    def rows(self) -> _Rows:
        return self._last_rows + self._record_rows + self._score_rows

    def add(self, chunk: Chunk, row: int) -> None:
        """The next chunk, whose first token is in `row`."""
        request = chunk.request
        if request.scoring is not None:
            first = max(chunk.start, request.scoring.trie.first_row)
            _note(self.scoring, self._score_rows, chunk, row, first, chunk.end)
            return
        if chunk.end == request.num_ahead and not request.closing:
            self.sampling.append(request)
            self._last_rows.append(np.array([row + chunk.end - chunk.start - 1]))
        unrecorded = request.first_unrecorded
        if unrecorded < request.num_tokens:
            first, last = max(chunk.start, unrecorded - 1), min(chunk.end, request.num_tokens - 1)
            _note(self.recording, self._record_rows, chunk, row, first, last)


def _note(
    positions: list[Positions], rows: _Rows, chunk: Chunk, row: int, first: int, last: int
) -> None:
    if first < last:
        positions.append((chunk.request, first, last))
        rows.append(np.arange(first, last) + (row - chunk.start))


def _packed(
    parts: Sequence[np.ndarray[tuple[int], np.dtype[np.integer]]], device: torch.device
) -> torch.Tensor:
    joined = np.concatenate(parts) if parts else np.empty(0, np.int64)
    return torch.from_numpy(joined.astype(np.int64, copy=False)).to(device)


def _indptr(lengths: Sequence[int]) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
