"""Token masks on the device: one that was there in an earlier step is not sent again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from sgc_kernels.gpu.sampling.params import TokenMasks
from sgc_runtime.device.sample_rows import Ints, padded
from sgc_runtime.device.uploads import Uploads
from sgc_runtime.sampling.row import SamplingRow


def num_words(vocab: int) -> int:
    """Words of 32 bits of a mask."""
    return -(-vocab // 32)


def mask_of(row: SamplingRow, words: int) -> Ints | None:
    """What may follow by a row's rule and by its healing; None: everything."""
    healed = row.allowed_now
    if healed is None:
        return row.mask
    bits = np.zeros(32 * words, np.bool_)
    bits[healed] = True
    found = np.packbits(bits, bitorder="little").view(np.int32)
    if row.mask is not None:
        found[: len(row.mask)] &= row.mask
        found[len(row.mask) :] = 0
    return found


class MaskArena:
    """Masks on the device. Equal ones are known by being the same array.

    Read-only arrays stay, the least recently used goes first; what may still change is sent
    in each step.

    Args:
        places: masks it holds, at least all of a step.
    """

    def __init__(self, places: int, vocab: int, uploads: Uploads, device: torch.device) -> None:
        self._places, self.words = places, num_words(vocab)
        self._uploads, self._device = uploads, device
        self._memory: torch.Tensor | None = None
        self._free = list(range(places))
        self._known: OrderedDict[int, tuple[int, Ints]] = OrderedDict()
        self._writable: list[int] = []

    def masks(self, masks: Sequence[Ints], at: Sequence[int], rows: int) -> TokenMasks:
        """Masks of a step's `rows` rows; `masks` are those of rows `at`, others have none."""
        self._forget_writable()
        fresh: list[tuple[int, Ints]] = []
        places = [self._place(mask, fresh) for mask in masks]
        size, mask_rows = padded(2 * len(fresh)), padded(rows)
        staged = self._uploads.stage(size + mask_rows + self.words * len(fresh))
        staged[: 2 * len(fresh)].view(np.int64)[:] = [place for place, _ in fresh]
        staged[size : size + mask_rows] = -1
        staged[size + np.array(at, np.int64)] = places
        self._write(staged[size + mask_rows :], [mask for _, mask in fresh])
        sent = self._uploads.send()
        if self._memory is None:
            shape = self._places, self.words
            self._memory = torch.zeros(shape, dtype=torch.int32, device=self._device)
        if fresh:
            index = sent[: 2 * len(fresh)].view(torch.int64)
            words = sent[size + mask_rows :].view(len(fresh), self.words)
            self._memory.index_copy_(0, index, words)
        return TokenMasks(self._memory, sent[size : size + rows])

    def _write(self, out: Ints, masks: list[Ints]) -> None:
        """Masks one behind the other; what is behind their last word is ruled out."""
        if all(len(mask) == self.words for mask in masks):
            if masks:
                np.concatenate(masks, out=out)
            return
        for row, mask in zip(out.reshape(-1, self.words), masks, strict=True):
            row[: len(mask)] = mask[: self.words]
            row[len(mask) :] = 0

    def _place(self, mask: Ints, fresh: list[tuple[int, Ints]]) -> int:
        found = self._known.get(id(mask))
        if found is not None:
            self._known.move_to_end(id(mask))
            return found[0]
        # Those of this step are at the end, and there is room for them all.
        place = self._free.pop() if self._free else self._known.popitem(last=False)[1][0]
        self._known[id(mask)] = place, mask  # held, so that no other array gets its id
        if mask.flags.writeable:
            self._writable.append(id(mask))
        fresh.append((place, mask))
        return place

    def _forget_writable(self) -> None:
        for key in self._writable:
            self._free.append(self._known.pop(key)[0])
        self._writable.clear()


def sent_masks(masks: Sequence[Ints | None], words: int, uploads: Uploads) -> TokenMasks | None:
    """The masks of some rows, each sent now."""
    if all(mask is None for mask in masks):
        return None
    size = padded(len(masks))
    staged = uploads.stage(size + words * len(masks))
    staged[size:] = 0
    block: NDArray[np.int32] = staged[size:].reshape(len(masks), words)
    for i, mask in enumerate(masks):
        staged[i] = -1 if mask is None else i
        if mask is not None:
            block[i, : len(mask)] = mask[:words]
    sent = uploads.send()
    return TokenMasks(sent[size:].view(len(masks), words), sent[: len(masks)])
