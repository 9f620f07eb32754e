"""Other ids for rows whose first ones were refused.

Where one id is refused the next may be, too, so several are found at once: those of a greedy row in
the order of their logits, those of another one by a chain of draws, each without the ones before.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
import torch
from numpy.typing import NDArray

from sgc_kernels.gpu.sampling.params import RowParams, TokenList, Workspace
from sgc_kernels.gpu.sampling.select import SamplingKernels
from sgc_runtime.device.sample_changes import changes_of
from sgc_runtime.device.sample_flight import Chosen
from sgc_runtime.device.sample_masks import mask_of, num_words, sent_masks
from sgc_runtime.device.sample_output import Layout, Outputs, Section
from sgc_runtime.device.sample_rows import FILTERS, flags_of, padded, params_of
from sgc_runtime.device.uploads import Uploads
from sgc_runtime.sampling.constraint import MAX_REJECTED
from sgc_runtime.sampling.row import SamplingRow
from sgc_runtime.sampling.sampler import NO_TOKEN

_STEP_BITS = 32  # of a gen's step; numbers above them are for draws after the first
_CHAIN = 3  # draws at once


class OtherChoices:
    """Chooses without the ids that were chosen before, by a copy of the logits."""

    def __init__(
        self,
        vocab: int,
        max_rows: int,
        device: torch.device,
        kernels: SamplingKernels,
        uploads: Uploads,
    ) -> None:
        self._vocab, self._kernels, self._uploads = vocab, kernels, uploads
        self._outputs = Outputs(device)
        self._work = Workspace(max_rows, vocab, device)
        self._greedy = RowParams.empty(max_rows, device)

    def ids(
        self,
        chosen: Chosen,
        known: dict[int, list[int]],
        places: Sequence[int],
        excluded: Sequence[Sequence[int]],
    ) -> list[int]:
        """The next choice of some rows.

        Args:
            known: by place, choices in their order, as far as they have been found; grows.
        """
        lacking = {
            place: list(ids)
            for place, ids in zip(places, excluded, strict=True)
            if known.get(place, [])[: len(ids)] != list(ids) or len(known[place]) == len(ids)
        }
        if lacking:
            for place, found in self._find(chosen, lacking).items():
                known[place] = lacking[place] + found
        return [known[place][len(ids)] for place, ids in zip(places, excluded, strict=True)]

    def _find(self, chosen: Chosen, lacking: dict[int, list[int]]) -> dict[int, list[int]]:
        """By place the next choices, one or more; `NO_TOKEN` stands behind the last there is."""
        rows, layout = chosen.rows, Layout()
        greedy = _Some(chosen, {i: x for i, x in lacking.items() if rows[i].params.greedy})
        others = _Some(chosen, {i: x for i, x in lacking.items() if not rows[i].params.greedy})
        size = min(MAX_REJECTED + 1, self._vocab)
        best, values = layout.ints(len(greedy.at) * size), layout.floats(len(greedy.at) * size)
        drawn = layout.ints(len(others.at) * _CHAIN)
        output = self._outputs.take(layout.size)
        if greedy.at:
            self._rank(greedy, best.of(output.memory), values.of(output.memory), size)
        if others.at:
            self._draw(others, drawn.of(output.memory))
        output.send(layout.size)
        numbers = output.wait()
        ranked = _ranked(best, values, numbers, size, size == self._vocab)
        found = dict(zip(greedy.places, ranked, strict=True))
        chains = drawn.ints(numbers).reshape(_CHAIN, len(others.at)).T.tolist()
        found |= dict(zip(others.places, map(_until_none, chains), strict=True))
        self._outputs.give_back(output)
        return found

    def _rank(self, some: _Some, ids: torch.Tensor, values: torch.Tensor, size: int) -> None:
        logits, gone = self._prepare(some, 0)
        best = logits.scatter_(1, gone.ids.long(), -inf).topk(size)
        ids.copy_(best.indices.view(-1))
        values.copy_(best.values.view(-1))

    def _draw(self, some: _Some, ids: torch.Tensor) -> None:
        """Write the draws of all rows, one turn behind the other."""
        logits, gone = self._prepare(some, _CHAIN)
        pairs = zip(some.rows, some.excluded, strict=True)
        steps = [row.step + (len(refused) << _STEP_BITS) for row, refused in pairs]
        params = params_of(some.rows, steps, self._uploads)
        filters = any(flags_of(row) & FILTERS for row in some.rows)
        kernels, work, count = self._kernels, self._work, len(some.rows)
        likely = kernels.draw(logits, self._greedy, work, None, gone, False).tokens
        for turn in range(_CHAIN):
            tokens = kernels.draw(logits, params, work, None, gone, filters).tokens
            if turn == 0:  # where the filters leave over nothing
                tokens = torch.where(tokens < 0, likely, tokens)
            ids[turn * count :][:count].copy_(tokens)
            gone.ids.scatter_(1, gone.counts[:, None].long(), tokens[:, None].int())
            gone.counts.add_(1)
            params.step.add_(1 << _STEP_BITS)

    def _prepare(self, some: _Some, more: int) -> tuple[torch.Tensor, TokenList]:
        """A copy of the rows' logits, changed and masked, and the ids excluded, with room for
        `more`."""
        index, gone = self._send(some, more)
        logits = some.logits.index_select(0, index)
        changed = [i for i, row in enumerate(some.rows) if not row.plain]
        if changed:
            rows = [some.rows[i] for i in changed]
            found = changes_of(rows, changed, len(some.rows), self._uploads)
            if len(found.ids):
                self._kernels.adjust(logits, found)
        words = num_words(self._vocab)
        masks = sent_masks([mask_of(row, words) for row in some.rows], words, self._uploads)
        if masks is not None:
            self._kernels.apply_masks(logits, masks)
        return logits, gone

    def _send(self, some: _Some, more: int) -> tuple[torch.Tensor, TokenList]:
        """Rows of the logits (int64), and what is not to be chosen; rows with less of that repeat
        an id."""
        rows, width = len(some.at), max(map(len, some.excluded)) + more
        size = padded(rows)
        staged = self._uploads.stage(3 * size + rows * width)
        staged[: 2 * rows].view(np.int64)[:] = some.at
        staged[2 * size :][:rows] = [len(ids) for ids in some.excluded]
        table = staged[3 * size :].reshape(rows, width)
        for row, ids in zip(table, some.excluded, strict=True):
            row[:] = ids[0]
            row[: len(ids)] = ids
        sent = self._uploads.send()
        gone = TokenList(sent[3 * size :].view(rows, width), sent[2 * size :][:rows])
        return sent[: 2 * rows].view(torch.int64), gone


class _Some:
    """Some of the rows that lack another id.

    Args:
        lacking: by place, the ids refused.
    """

    def __init__(self, chosen: Chosen, lacking: dict[int, list[int]]) -> None:
        self.logits = chosen.logits
        self.places = list(lacking)
        self.at = [chosen.at[i] for i in lacking]
        self.rows: list[SamplingRow] = [chosen.rows[i] for i in lacking]
        self.excluded = list(lacking.values())


def _ranked(
    ids: Section, values: Section, numbers: NDArray[np.int32], size: int, complete: bool
) -> list[list[int]]:
    """Of each row the `size` best ids in order, of equals the smaller first; unless they are
    `complete` without those that equal the last one, of which some may lack."""
    found = []
    rows = ids.ints(numbers).reshape(-1, size)
    for row, logits in zip(rows, values.floats(numbers).reshape(-1, size), strict=True):
        kept = logits > (-inf if complete else logits[-1])
        order = np.lexsort((row[kept], -logits[kept]))
        best: list[int] = row[kept][order].tolist()
        if complete or logits[-1] == -inf:
            best.append(NO_TOKEN)
        found.append(best or [int(row.min())])
    return found


def _until_none(chain: list[int]) -> list[int]:
    """The first of a chain, and those behind it that are ids."""
    last = chain.index(NO_TOKEN) if NO_TOKEN in chain else len(chain)
    return chain[: max(1, last)]
