"""Token masks on the device: one that was there in an earlier step is not sent again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

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

    Read-only arrays stay until others need their place, about the least recently used first; what
    may still change is sent in each step.

    Args:
        places: masks it holds, at least all of a step.
    """

    def __init__(self, places: int, vocab: int, uploads: Uploads, device: torch.device) -> None:
        self.words = num_words(vocab)
        self._uploads = uploads
        self._memory = torch.zeros(places, self.words, dtype=torch.int32, device=device)
        self._known: dict[int, int] = {}
        # Of each place; held, so that no other array gets its id.
        self._held: list[Ints | None] = [None] * places
        self._used = [-1] * places  # the last step that did
        self._step = self._hand = 0
        self._writable: list[Ints] = []

    def masks(self, masks: Sequence[Ints], at: Sequence[int], rows: int) -> TokenMasks:
        """Masks of a step's `rows` rows; `masks` are those of rows `at`, others have none. Where it
        fails, no mask counts as sent any more."""
        try:
            return self._send(masks, at, rows)
        except BaseException:
            self._forget()
            raise

    def _send(self, masks: Sequence[Ints], at: Sequence[int], rows: int) -> TokenMasks:
        places, fresh = self._find(masks)
        size, mask_rows = padded(2 * len(fresh)), padded(rows)
        staged = self._uploads.stage(size + mask_rows + self.words * len(fresh))
        staged[: 2 * len(fresh)].view(np.int64)[:] = fresh
        staged[size : size + mask_rows] = -1
        staged[size + np.array(at, np.int64)] = places
        new = [mask for mask in map(self._held.__getitem__, fresh) if mask is not None]
        _write(staged[size + mask_rows :], new, self.words)
        sent = self._uploads.send()
        if fresh:
            index = sent[: 2 * len(fresh)].view(torch.int64)
            words = sent[size + mask_rows :].view(len(fresh), self.words)
            self._memory.index_copy_(0, index, words)
        return TokenMasks(self._memory, sent[size : size + rows])

    def _forget(self) -> None:
        """Whatever is in the memory is sent anew when it comes up."""
        self._known.clear()
        self._writable.clear()
        self._held = [None] * len(self._held)

    def _find(self, masks: Sequence[Ints]) -> tuple[list[int], list[int]]:
        """The place of each mask, and those places whose masks are new."""
        self._step += 1
        known, used, step = self._known, self._used, self._step
        places, fresh = [], []
        for mask in masks:
            place = known.get(id(mask))
            if place is None:
                place = self._take(mask)
                fresh.append(place)
            used[place] = step
            places.append(place)
        for mask in self._writable:
            del known[id(mask)]
        self._writable.clear()
        return places, fresh

    def _take(self, mask: Ints) -> int:
        """A place for a new mask; one that this step does not use, or the one before, if some."""
        place, used = self._hand, self._used
        for oldest in (self._step - 1, self._step):
            tries = len(used)
            while used[place] >= oldest and tries:
                place, tries = (place + 1) % len(used), tries - 1
            if tries:
                break
        self._hand = (place + 1) % len(used)
        before = self._held[place]
        if before is not None and self._known.get(id(before)) == place:
            del self._known[id(before)]
        self._held[place] = mask
        self._known[id(mask)] = place
        if mask.flags.writeable:
            self._writable.append(mask)
        return place


def sent_masks(masks: Sequence[Ints | None], words: int, uploads: Uploads) -> TokenMasks | None:
    """The masks of some rows, each sent now."""
    if all(mask is None for mask in masks):
        return None
    given = [mask for mask in masks if mask is not None]
    size = padded(len(masks))
    staged = uploads.stage(size + words * len(given))
    there = np.array([mask is not None for mask in masks])
    staged[: len(masks)] = np.where(there, there.cumsum() - 1, -1)
    _write(staged[size:], given, words)
    sent = uploads.send()
    return TokenMasks(sent[size:].view(len(given), words), sent[: len(masks)])


def _write(out: Ints, masks: Sequence[Ints], words: int) -> None:
    """Masks one behind the other; what is behind their last word is ruled out."""
    if masks and all(len(mask) == words for mask in masks):
        np.concatenate(masks, out=out)
        return
    for row, mask in zip(out.reshape(-1, words), masks, strict=True):
        row[: len(mask)] = mask[:words]
        row[len(mask) :] = 0
