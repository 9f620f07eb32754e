"""Other ids for rows whose first ones were refused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from sgc_kernels.gpu.sampling.params import RowParams, Sampled, TokenList, Workspace
from sgc_kernels.gpu.sampling.select import SamplingKernels
from sgc_runtime.device.sample_changes import changes_of
from sgc_runtime.device.sample_masks import mask_of, num_words, sent_masks
from sgc_runtime.device.sample_output import Layout, Outputs
from sgc_runtime.device.sample_rows import DRAWS, FILTERS, flags_of, padded, params_of
from sgc_runtime.device.uploads import Uploads
from sgc_runtime.sampling.row import SamplingRow

_STEP_BITS = 32  # of a gen's step; numbers above them are for draws after the first


class OtherChoices:
    """Chooses without the ids that were chosen before, by a copy of the logits."""

    def __init__(
        self, vocab: int, device: torch.device, kernels: SamplingKernels, uploads: Uploads
    ) -> None:
        self._vocab, self._device, self._kernels, self._uploads = vocab, device, kernels, uploads
        self._outputs = Outputs(device)
        self._make_room(1)

    def _make_room(self, rows: int) -> None:
        self._work = Workspace(rows, self._vocab, self._device)
        self._greedy = RowParams.empty(rows, self._device)

    def draw(
        self,
        logits: torch.Tensor,
        at: Sequence[int],
        rows: Sequence[SamplingRow],
        excluded: Sequence[Sequence[int]],
    ) -> list[int]:
        """The ids of `rows`, whose logits are rows `at` of `logits`; -1 where nothing is left."""
        if len(self._work.done) < len(rows):
            self._make_room(len(rows))
        layout = Layout()
        section = layout.ints(len(rows))
        output = self._outputs.take(layout.size)
        index, gone = self._send(at, excluded)
        picked = logits.index_select(0, index)
        self._choose(picked, rows, excluded, gone, section.of(output.memory))
        output.send(layout.size)
        ids: list[int] = section.ints(output.wait()).tolist()
        self._outputs.give_back(output)
        return ids

    def _choose(
        self,
        logits: torch.Tensor,
        rows: Sequence[SamplingRow],
        excluded: Sequence[Sequence[int]],
        gone: TokenList,
        ids: torch.Tensor,
    ) -> None:
        words = num_words(self._vocab)
        masks = sent_masks([mask_of(row, words) for row in rows], words, self._uploads)
        changed = [i for i, row in enumerate(rows) if not row.plain]
        if changed:
            found = changes_of([rows[i] for i in changed], changed, len(rows), self._uploads)
            if len(found.ids):
                self._kernels.adjust(logits, found)
        likely = Sampled(ids)
        self._kernels.draw(logits, self._greedy, self._work, masks, gone, False, False, likely)
        flags = [flags_of(row) for row in rows]
        if not any(flag & DRAWS for flag in flags):
            return
        pairs = zip(rows, excluded, strict=True)
        steps = [row.step + (len(refused) << _STEP_BITS) for row, refused in pairs]
        params, filters = params_of(rows, steps, self._uploads), any(f & FILTERS for f in flags)
        drawn = self._kernels.draw(logits, params, self._work, masks, gone, filters).tokens
        ids.copy_(torch.where(drawn < 0, ids, drawn))

    def _send(
        self, at: Sequence[int], excluded: Sequence[Sequence[int]]
    ) -> tuple[torch.Tensor, TokenList]:
        """Rows of the logits (int64), and what is not to be chosen."""
        rows, width = len(at), max(map(len, excluded))
        size = padded(rows)
        staged = self._uploads.stage(3 * size + rows * width)
        staged[: 2 * rows].view(np.int64)[:] = at
        staged[2 * size :][:rows] = [len(ids) for ids in excluded]
        table = staged[3 * size :].reshape(rows, width)
        for row, ids in zip(table, excluded, strict=True):
            row[: len(ids)] = ids
            row[len(ids) :] = 0
        sent = self._uploads.send()
        gone = TokenList(sent[3 * size :].view(rows, width), sent[2 * size :][:rows])
        return sent[: 2 * rows].view(torch.int64), gone
