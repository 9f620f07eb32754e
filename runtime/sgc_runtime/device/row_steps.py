"""Steps whose tokens are all decode rows: through graphs, where there are such."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from sgc_kernels.attention.rows import RowAttention
from sgc_kernels.gpu.attention.items import Launch
from sgc_kernels.step import NUMBERS, POSITION, StepTensors
from sgc_runtime.device.graphs import Graphs, padded
from sgc_runtime.device.recordings import Recordings
from sgc_runtime.device.row_plans import ROOM, RowPlans
from sgc_runtime.device.slot_table import Ints, SlotTable
from sgc_runtime.device.uploads import Uploads
from sgc_runtime.model.forward import KVTensors
from sgc_runtime.model.llama import LlamaModel
from sgc_runtime.model.single import SingleChain, single_chain

_LENGTHS = (1, 2048)  # contexts that steps of one token are recorded for ahead


@dataclass(frozen=True, slots=True)
class _RowsPlan:
    """An `AttentionPlan` over the slot table by grids that are fixed."""

    attentions: dict[int | None, tuple[RowAttention, Launch]]
    slots: torch.Tensor
    starts: torch.Tensor
    lens: torch.Tensor
    out: torch.Tensor

    def run(
        self,
        q: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        window: int | None = None,
    ) -> torch.Tensor:
        attention, launch = self.attentions[window]
        return attention.run(
            q, k_cache, v_cache, self.slots, self.starts, self.lens, self.out, launch
        )


class RowSteps:
    """Computes steps of up to `max_tokens` tokens, a decode row each.

    A request's k new tokens are k rows that see a token more each: all keys and values of a layer
    are stored before attention reads any.

    Args:
        graphs: None: each kernel is launched by itself.
    """

    def __init__(
        self,
        model: LlamaModel,
        kv: KVTensors,
        table: SlotTable,
        uploads: Uploads,
        max_tokens: int,
        graphs: Graphs | None,
    ) -> None:
        self.max_tokens, self.graphs = max_tokens, graphs
        self._model, self._kv, self._table, self._uploads = model, kv, table, uploads
        rows, shape, device = model.kernels.rows, model.shape, model.device
        assert rows.attention is not None, "attention has a form for rows"
        self._prepare = rows.prepare_step
        self._chain = single_chain(model)
        # Outside of recordings: those share their memory, and the next one may write over it.
        logits = (1, model.config.vocab_size)
        self._logits = [torch.empty(logits, dtype=torch.float32, device=device) for _ in range(2)]
        self._turn = 0
        self._windows = {
            window: rows.attention(shape, padded(max_tokens), device, self._bound(window))
            for window in dict.fromkeys(model.config.windows)
        }
        attentions = list(self._windows.values())
        self.plans = RowPlans(attentions, table)
        self._recordings = None if graphs is None else Recordings(graphs, attentions, self._body)
        size = padded(max_tokens)
        self._step = StepTensors.empty(size, device)
        self._numbers = torch.zeros(size, NUMBERS, dtype=torch.int32, device=device)
        # Rows behind a step's last are not written: they hold numbers from before, which are
        # computed on and thrown away.
        out = (size, shape.num_heads, shape.head_dim)
        self._out = torch.zeros(out, dtype=shape.dtype, device=device)

    def _bound(self, window: int | None) -> int | None:
        """None where the window hides nothing."""
        return None if window is None or window >= self._table.max_context else window

    def warm_up(self) -> None:
        """Compile all kernels of such steps, and record those of one token, on padding."""
        numbers = np.array([self._table.padding], np.int32)
        # Few and many wide items, of either tile; long and short contexts.
        for size, tile, wide, length in (
            (2, 64, 1, 1),
            (32, 128, 1, 400),
            (2, 64, 72, 1),
            (32, 128, 72, 1),
        ):
            size = min(size, padded(self.max_tokens))
            numbers[0, POSITION] = min(length, self._table.max_context) - 1
            loaded = self.plans.load(numbers)
            self._send(numbers, size)
            grids = [x.joined(Launch(size, wide, 8, 8, tile, x.tokens)) for x in loaded]
            self._model.logits(self._body(size, grids))
        numbers[0, POSITION] = 0
        if self._chain is None:
            return
        splits = (self._chain.split(min(length, self._table.max_context)) for length in _LENGTHS)
        for split in dict.fromkeys(splits):
            if split is not None:
                for _ in range(2):
                    self._single(numbers, self._chain, split)

    def run(self, numbers: Ints, wanted: NDArray[np.int64] | None) -> torch.Tensor:
        """Begin the step of `numbers` (see `SlotTable.number`).

        Args:
            wanted: tokens whose logits are wanted; None: all.

        Returns:
            `[wanted, vocab]` float32.
        """
        if len(numbers) == 1 and self._chain is not None:
            length = int(numbers[0, POSITION]) + 1
            split = self._chain.split(min(length + ROOM, self._table.max_context))
            if split is not None:
                logits = self._single(numbers, self._chain, split)
                return logits if wanted is None else logits[: len(wanted)]
        hidden = self._rows(numbers)
        if wanted is not None:
            self._uploads.stage(len(wanted))[:] = wanted
            hidden = hidden[self._uploads.send().long()]
        return self._model.logits(hidden)

    def _rows(self, numbers: Ints) -> torch.Tensor:
        """`[T, hidden]`, what the head takes; valid until the next step begins."""
        tokens = len(numbers)
        launches = self.plans.load(numbers)
        if self._recordings is None:
            self._send(numbers, tokens)
            return self._body(tokens, launches)
        size = self._recordings.size(tokens, launches)
        self._send(numbers, size)
        result = self._recordings.run([replace(launch, rows=size) for launch in launches])
        return result[:tokens]

    def _single(self, numbers: Ints, chain: SingleChain, split: Hashable) -> torch.Tensor:
        """`[1, vocab]` of the chain, in one of two places by turns: those of the step before are
        looked at yet."""
        self._send(numbers, 1)
        self._turn = 1 - self._turn
        out = self._logits[self._turn]
        if self.graphs is None:
            return self._chain_body(chain, split, out)
        key = (1, "chain", split, self._turn)
        recorded = self.graphs.find(key)
        if recorded is not None:
            recorded.replay()
            return out
        self._chain_body(chain, split, out)
        self.graphs.record(key, lambda: self._chain_body(chain, split, out))
        return out

    def _send(self, numbers: Ints, size: int) -> None:
        staged = self._uploads.stage(size * NUMBERS).reshape(size, NUMBERS)
        staged[: len(numbers)] = numbers
        staged[len(numbers) :] = self._table.padding
        self._uploads.send(self._numbers[:size])

    def _body(self, size: int, launches: Sequence[Launch]) -> torch.Tensor:
        """All that the device does in a step of `size` tokens; reads no number of the host."""
        step = self._prepared(size)
        attentions = zip(self._windows.values(), launches, strict=True)
        plan = _RowsPlan(
            dict(zip(self._windows, attentions, strict=True)),
            self._table.table.view(-1),
            step.starts,
            step.lens,
            self._out[:size],
        )
        return self._model.hidden(step.ids, step.positions, step.out_slots, plan, self._kv)

    def _chain_body(self, chain: SingleChain, split: Hashable, out: torch.Tensor) -> torch.Tensor:
        return chain.logits(self._prepared(1), self._table.table.view(-1), self._kv, split, out)

    def _prepared(self, size: int) -> StepTensors:
        table, step = self._table, self._step.first(size)
        self._prepare(self._numbers[:size], table.table, table.last_ids, step)
        return step
