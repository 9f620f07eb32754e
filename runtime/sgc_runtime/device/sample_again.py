"""Other ids for rows whose first ones were refused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from sgc_kernels.gpu.sampling.params import RowParams, TokenList, TokenMasks, Workspace
from sgc_kernels.gpu.sampling.select import SamplingKernels
from sgc_runtime.device.sample_changes import changes_of
from sgc_runtime.device.sample_masks import mask_of, num_words, sent_masks
from sgc_runtime.device.sample_output import Layout, Outputs
from sgc_runtime.device.sample_rows import DRAWS, FILTERS, flags_of, params_of
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
        self._work = Workspace(1, vocab, device)

    def draw(
        self,
        logits: torch.Tensor,
        at: Sequence[int],
        rows: Sequence[SamplingRow],
        excluded: Sequence[Sequence[int]],
    ) -> list[int]:
        """The ids of `rows`, whose logits are rows `at` of `logits`; -1 where nothing is left."""
        layout = Layout()
        section = layout.ints(len(rows))
        output = self._outputs.take(layout.size)
        picked = logits.index_select(0, self._sent(at).long())
        section.of(output.memory).copy_(self._choose(picked, rows, excluded))
        output.send(layout.size)
        ids: list[int] = section.ints(output.wait()).tolist()
        self._outputs.give_back(output)
        return ids

    def _choose(
        self,
        logits: torch.Tensor,
        rows: Sequence[SamplingRow],
        excluded: Sequence[Sequence[int]],
    ) -> torch.Tensor:
        if len(self._work.done) < len(rows):
            self._work = Workspace(len(rows), self._vocab, self._device)
        words = num_words(self._vocab)
        masks = sent_masks([mask_of(row, words) for row in rows], words, self._uploads)
        changed = [i for i, row in enumerate(rows) if not row.plain]
        if changed:
            found = changes_of([rows[i] for i in changed], changed, len(rows), self._uploads)
            if len(found.ids):
                self._kernels.adjust(logits, found)
        gone = self._exclude(excluded)
        likely = self._draw(logits, RowParams.empty(len(rows), self._device), masks, gone, False)
        flags = [flags_of(row) for row in rows]
        if not any(flag & DRAWS for flag in flags):
            return likely
        steps = [
            row.step + (len(ids) << _STEP_BITS) for row, ids in zip(rows, excluded, strict=True)
        ]
        params, filters = params_of(rows, steps, self._uploads), any(f & FILTERS for f in flags)
        drawn = self._draw(logits, params, masks, gone, filters)
        return torch.where(drawn < 0, likely, drawn)

    def _draw(
        self,
        logits: torch.Tensor,
        params: RowParams,
        masks: TokenMasks | None,
        gone: TokenList,
        filters: bool,
    ) -> torch.Tensor:
        return self._kernels.draw(logits, params, self._work, masks, gone, filters).tokens

    def _exclude(self, excluded: Sequence[Sequence[int]]) -> TokenList:
        counts = [len(ids) for ids in excluded]
        table = np.zeros((len(counts), 1 + max(counts)), np.int64)
        table[:, 0] = counts
        for row, ids in zip(table, excluded, strict=True):
            row[1 : 1 + len(ids)] = ids
        sent = self._sent(table.T.ravel()).view(-1, len(counts))
        return TokenList(sent[1:].T.contiguous(), sent[0])

    def _sent(self, numbers: Sequence[int] | NDArray[np.int64]) -> torch.Tensor:
        """int32, on the device."""
        self._uploads.stage(len(numbers))[:] = numbers
        return self._uploads.send()
