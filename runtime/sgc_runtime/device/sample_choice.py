"""The choice of a step's ids: which kernels run, on what, and where their results go."""

from __future__ import annotations

import numpy as np
import torch

from sgc_kernels.gpu.sampling.params import (
    Adjustments,
    IdTable,
    Sampled,
    TokenMasks,
    Workspace,
)
from sgc_kernels.gpu.sampling.select import SamplingKernels
from sgc_runtime.device.sample_changes import changes_of
from sgc_runtime.device.sample_flight import Apart, Chosen
from sgc_runtime.device.sample_given import RowLogprobs
from sgc_runtime.device.sample_masks import MaskArena, mask_of, sent_masks
from sgc_runtime.device.sample_output import Layout
from sgc_runtime.device.sample_rows import (
    BOUND,
    CHANGES,
    FILTERS,
    HEALS,
    LOGPROBS,
    PENALTIES,
    StepRows,
)
from sgc_runtime.device.uploads import Uploads
from sgc_runtime.sampling.row import SamplingRow


class Chooser:
    """Chooses the ids of one step after the other.

    Args:
        max_rows: rows at once, and places in the table of ids.
    """

    def __init__(
        self,
        vocab: int,
        max_rows: int,
        device: torch.device,
        kernels: SamplingKernels,
        uploads: Uploads,
    ) -> None:
        self._vocab, self._device, self._kernels, self._uploads = vocab, device, kernels, uploads
        self._rows = StepRows(max_rows + 1, uploads)
        self._masks = MaskArena(2 * max_rows + 2, vocab, uploads, device)
        self._work = Workspace(max_rows, vocab, device)
        self._work_apart = Workspace(max_rows, vocab, device)

    def begin(
        self,
        layout: Layout,
        logits: torch.Tensor,
        rows: list[SamplingRow],
        at: list[int],
        places: list[int],
    ) -> Chosen:
        """Bring the rows' parameters to the device, and reserve room for the results.

        Args:
            logits: `[all, vocab]`, of which `rows` are those `at`, ascending.
            places: where in the table of ids the chosen ones go.
        """
        step = self._rows
        step.take(rows, at, places)
        sure = step.flags & PENALTIES
        changed = [i for i in step.asking(CHANGES) if sure[i] or not rows[i].plain]
        asking, bound = step.asking(LOGPROBS), step.asking(BOUND)
        apart = _apart(rows, asking, bound, changed)
        if apart:
            alone = set(apart)
            asking, bound = ([i for i in some if i not in alone] for some in (asking, bound))
        count, wanted = step.count, bool(asking or bound)
        return Chosen(
            rows=rows,
            at=at,
            logits=logits,
            changed=changed,
            asking=asking,
            bound=bound,
            tokens=layout.ints(count),
            logprobs=layout.floats(count) if wanted else None,
            shares=layout.floats(count) if wanted else None,
            apart=self._reserve(layout, rows, apart) if apart else None,
        )

    def _reserve(self, layout: Layout, rows: list[SamplingRow], places: list[int]) -> Apart:
        counts = [rows[i].params.top_logprobs for i in places]
        return Apart(
            places=places,
            asking=[j for j, i in enumerate(places) if rows[i].wants_logprobs],
            bound=[j for j, i in enumerate(places) if rows[i].rule is not None],
            logprobs=RowLogprobs(layout, len(places), counts, self._vocab),
            shares=layout.floats(len(places)),
        )

    def run(self, chosen: Chosen, memory: torch.Tensor, last_ids: torch.Tensor) -> None:
        """Begin to choose, by the rows of the last `begin`."""
        logits = chosen.logits[: self._rows.count]
        copied = self._copy_apart(chosen) if chosen.apart is not None else None
        masks = self._upload_masks(chosen)
        changes = self._change(chosen, logits)
        out = Sampled(chosen.tokens.of(memory), *_stats(chosen, memory))
        self._choose(logits, masks, out, last_ids)
        if changes is not None:
            self._kernels.restore(logits, changes)
        if copied is not None:
            index, own = copied
            self._finish_apart(chosen, own, memory, out.tokens[index])

    def _choose(
        self, logits: torch.Tensor, masks: TokenMasks | None, out: Sampled, last_ids: torch.Tensor
    ) -> None:
        step, stats = self._rows, out.logprobs is not None
        assert step.places is not None
        kept = IdTable(last_ids, step.places)
        if step.params is not None:
            filters = bool(step.asked & FILTERS)
            self._kernels.draw(
                logits, step.params, self._work, masks, None, filters, stats, out, kept
            )
        else:
            self._kernels.greedy(logits, self._work, masks, stats, out, kept)

    def _upload_masks(self, chosen: Chosen) -> TokenMasks | None:
        rows, at, count = chosen.rows, chosen.at, self._rows.count
        bound = self._rows.asking(BOUND)
        heals = [i for i in self._rows.asking(HEALS) if rows[i].heals]
        if heals:
            bound = sorted({*bound, *heals})
            found = [mask_of(rows[i], self._masks.words) for i in bound]
        else:
            found = [rows[i].mask for i in bound]
        masks = [mask for mask in found if mask is not None]
        assert len(masks) == len(bound), "a row was not prepared"
        if not masks:
            return None
        return self._masks.masks(masks, [at[i] for i in bound], count)

    def _change(self, chosen: Chosen, logits: torch.Tensor) -> Adjustments | None:
        if not chosen.changed:
            return None
        rows = [chosen.rows[i] for i in chosen.changed]
        at = [chosen.at[i] for i in chosen.changed]
        changes = changes_of(rows, at, len(logits), self._uploads)
        if not len(changes.ids):
            return None
        self._kernels.adjust(logits, changes)
        return changes

    def _copy_apart(self, chosen: Chosen) -> tuple[torch.Tensor, torch.Tensor]:
        """Which rows of the logits are apart, and a copy of them."""
        assert chosen.apart is not None
        at = np.array([chosen.at[i] for i in chosen.apart.places])
        self._uploads.stage(2 * len(at)).view(np.int64)[:] = at
        index = self._uploads.send().view(torch.int64)
        return index, chosen.logits.index_select(0, index)

    def _finish_apart(
        self, chosen: Chosen, logits: torch.Tensor, memory: torch.Tensor, tokens: torch.Tensor
    ) -> None:
        apart = chosen.apart
        assert apart is not None
        apart.logprobs.compute(self._kernels, logits, tokens, memory)
        rules = [chosen.rows[i].mask for i in apart.places]
        masks = sent_masks(rules, self._masks.words, self._uploads)
        if masks is None:
            return
        out = Sampled.empty(len(rules), self._device, logprobs=True)
        out = Sampled(out.tokens, out.logprobs, apart.shares.of(memory))
        self._kernels.greedy(logits, self._work_apart, masks, True, out)


def _apart(
    rows: list[SamplingRow], asking: list[int], bound: list[int], changed: list[int]
) -> list[int]:
    """Which rows' log-probabilities one pass over their logits does not give: those of the
    likeliest ids, of rows under a rule, and of logits that are changed for the choice."""
    found = {i for i in asking if rows[i].params.top_logprobs > 0 or rows[i].rule is not None}
    if changed and (asking or bound):
        found.update({*asking, *bound}.intersection(changed))
    return sorted(found)


def _stats(chosen: Chosen, memory: torch.Tensor) -> list[torch.Tensor]:
    if chosen.logprobs is None or chosen.shares is None:
        return []
    return [chosen.logprobs.of(memory), chosen.shares.of(memory)]
