"""Steps of any kind, launched kernel by kernel: prompts, scorings, what is too large for graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from sgc_kernels.gpu.attention.shared import depth_first_order, neighbour_lcp
from sgc_kernels.step import NUMBERS, POSITION, ROW, SLOT, TOKEN, StepTensors
from sgc_runtime.device.slot_table import Ints, SlotTable
from sgc_runtime.device.uploads import Uploads
from sgc_runtime.engine.scheduler import Chunk
from sgc_runtime.model.forward import ForwardBatch, KVTensors
from sgc_runtime.model.llama import LlamaModel
from sgc_runtime.model.plain_layers import plain_layers

_Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Contexts:
    """The sequences of a step: new tokens, and where the slots of each lie in `slots`."""

    queries: _Longs
    starts: _Longs
    lens: _Longs
    slots: Ints  # on the host
    slots_there: torch.Tensor  # the same on the device


class EagerSteps:
    """Computes steps by `LlamaModel.forward`."""

    def __init__(
        self, model: LlamaModel, kv: KVTensors, table: SlotTable, uploads: Uploads
    ) -> None:
        self._model, self._kv, self._table, self._uploads = model, kv, table, uploads
        layers = plain_layers(model)
        self._hidden = None if layers is None else layers.hidden

    def ordered(self, gens: list[Chunk]) -> list[Chunk]:
        """The chunks so that those which share most stand side by side."""
        if len(gens) <= 2:
            return gens
        rows = np.array([self._table.row(c.request) for c in gens], np.int64)
        lens = np.array([c.start for c in gens], np.int64)
        flat = self._table.mirror.reshape(-1)
        places = depth_first_order(flat, rows * self._table.max_context, lens)
        return [gens[place] for place in places.tolist()]

    def run(self, chunks: Sequence[Chunk], numbers: Ints, wanted: _Longs) -> torch.Tensor:
        """Begin a step.

        Args:
            chunks: generations in the order of `ordered`, then scorings.
            numbers: of the generations among them, see `SlotTable.number`.
            wanted: rows of T whose logits are wanted.

        Returns:
            `[wanted, vocab]` float32.
        """
        scorings = [c for c in chunks if c.request.scoring is not None]
        gens = chunks[: len(chunks) - len(scorings)]
        contexts = self._of_scorings(gens, scorings) if scorings else self._of_table(gens)
        step = self._prepare(np.concatenate([numbers, *map(self._number, scorings)]))
        logit_rows = self._uploads.stage(len(wanted))
        logit_rows[:] = wanted
        starts = torch.from_numpy(np.append(contexts.starts, 0).astype(np.int32))
        batch = ForwardBatch(
            input_ids=step.ids,
            positions=step.positions,
            out_slots=step.out_slots,
            qo_indptr=torch.from_numpy(_indptr(contexts.queries)),
            kv_indptr=starts,
            kv_slots=contexts.slots_there,
            logit_rows=self._uploads.send().long(),
            kv_ends=torch.from_numpy((contexts.starts + contexts.lens).astype(np.int32)),
            shared=torch.from_numpy(neighbour_lcp(contexts.slots, contexts.starts, contexts.lens)),
        )
        return self._model.forward(batch, self._kv, self._hidden)

    def _prepare(self, numbers: Ints) -> StepTensors:
        self._uploads.stage(numbers.size)[:] = numbers.reshape(-1)
        sent = self._uploads.send().view(-1, NUMBERS)
        step = StepTensors.empty(len(numbers), self._model.device)
        table = self._table
        self._model.kernels.rows.prepare_step(sent, table.table, table.last_ids, step)
        return step

    def _number(self, chunk: Chunk) -> Ints:
        """As `SlotTable.number`, for a scoring: it has no row, so the one for padding stands in."""
        request = chunk.request
        assert request.scoring is not None
        some = slice(chunk.start, chunk.end)
        numbers = np.empty((chunk.end - chunk.start, NUMBERS), np.int32)
        numbers[:, ROW] = self._table.padding[0]
        numbers[:, SLOT] = request.slots[some]
        numbers[:, POSITION] = request.scoring.trie.positions[some]
        numbers[:, TOKEN] = request.tokens[some]
        return numbers

    def _of_table(self, chunks: Sequence[Chunk]) -> _Contexts:
        rows = np.array([self._table.row(c.request) for c in chunks], np.int64)
        ends = np.array([c.end for c in chunks], np.int64)
        queries = ends - np.array([c.start for c in chunks], np.int64)
        table = self._table
        starts = rows * table.max_context
        return _Contexts(queries, starts, ends, table.mirror.reshape(-1), table.table.view(-1))

    def _of_scorings(self, gens: Sequence[Chunk], scorings: Sequence[Chunk]) -> _Contexts:
        """All contexts packed: a scoring's sequences are paths in its trie."""
        sequences = [(c.end - c.start, c.request.slots[: c.end]) for c in gens]
        for chunk in scorings:
            request = chunk.request
            assert request.scoring is not None
            sequences += request.scoring.trie.sequences(chunk.start, chunk.end, request.slots)
        lens = np.array([len(slots) for _, slots in sequences], np.int64)
        packed = self._uploads.stage(int(lens.sum()))
        np.concatenate([slots for _, slots in sequences], out=packed, casting="same_kind")
        host = packed.copy()
        queries = np.array([count for count, _ in sequences], np.int64)
        return _Contexts(queries, np.cumsum(lens) - lens, lens, host, self._uploads.send())


def _indptr(counts: _Longs) -> Ints:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
