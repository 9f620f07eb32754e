"""Which slots hold the context of each request in flight: a table on the device, with a copy on
the host that plans of attention are made from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from sgc_kernels.select import RowKernels
from sgc_kernels.step import NUMBERS, POSITION, ROW, SLOT, TOKEN
from sgc_runtime.device.uploads import Uploads
from sgc_runtime.engine.request import Request
from sgc_runtime.engine.scheduler import Chunk

Ints = NDArray[np.int32]
Slots = NDArray[np.int64]
PASSING = 64  # rows for paths of scorings, which are there for one step
_PENDING = -1  # instead of an id: the one that was chosen last for the row


class SlotTable:
    """Hands out a row to each request in flight and keeps it up to date.

    Attributes:
        table: `[rows + 1 + PASSING, max_context]` int32 on the device; row `rows` is for padding.
        mirror: the same on the host.
        last_ids: int64 on the device: the id chosen last for each row.
        changed: rows whose slots, other than those of new tokens, differ from those that the last
            plans saw. Whoever plans empties it.
    """

    def __init__(
        self,
        rows: int,
        max_context: int,
        padding_slot: int,
        kernels: RowKernels,
        uploads: Uploads,
        device: torch.device,
    ) -> None:
        shape = (rows + 1 + PASSING, max_context)
        assert shape[0] * shape[1] < 1 << 31, "kernels count entries of the table in 32 bits"
        self.table = torch.zeros(shape, dtype=torch.int32, device=device)
        self.mirror: Ints = np.zeros(shape, np.int32)
        self.last_ids = torch.zeros(shape[0], dtype=torch.int64, device=device)
        self.changed: set[int] = set()
        self.padding = (rows, padding_slot, 0, 0)  # what stands for a token that is none
        self._kernels, self._uploads = kernels, uploads
        self._rows: dict[Request, int] = {}
        self._free = list(range(rows - 1, -1, -1))
        self._known = np.zeros(rows + 1, np.int64).tolist()  # slots of each row

    @property
    def max_context(self) -> int:
        return self.table.shape[1]

    def row(self, request: Request) -> int:
        """The row of a request, handed out if it has none."""
        row = self._rows.get(request)
        if row is None:
            assert self._free, "more requests in flight than the slot table has rows"
            row = self._rows[request] = self._free.pop()
            self._known[row] = request.num_tabled = 0
            self.changed.add(row)
        return row

    def forget(self, request: Request) -> None:
        """Take back the row of a request, if it has one. What is launched may still read it."""
        row = self._rows.pop(request, None)
        if row is not None:
            self._free.append(row)
            self.changed.add(row)
            request.num_tabled = 0

    def fill(self, chunks: Sequence[Chunk]) -> None:
        """Bring the slots before the chunks of generations to the device, where it lacks any."""
        runs: list[tuple[int, int, Slots]] = []
        for request, start, _ in chunks:
            row = self.row(request)
            known = request.num_tabled
            if known != self._known[row]:  # some were changed
                self.changed.add(row)
            if known < start:
                runs.append((row, known, request.slots[known:start]))
                self.changed.add(row)
                request.num_tabled = start
            self._known[row] = request.num_tabled
        if runs:
            self._send(runs)

    def number(self, chunks: Sequence[Chunk]) -> Ints:
        """What `prepare_step` is told of each token of generations, `[T, 4]`; the slots before the
        chunks are brought to the device."""
        self.fill(chunks)
        total = sum([chunk[2] - chunk[1] for chunk in chunks])
        found = self._ones(chunks) if total == len(chunks) else self._some(chunks, total)
        self.mirror[found[:, ROW], found[:, POSITION]] = found[:, SLOT]
        return found

    def _ones(self, chunks: Sequence[Chunk]) -> Ints:
        """Numbers of chunks of one token each."""
        numbers: list[int] = []
        for request, start, end in chunks:
            row = self._rows[request]
            request.num_tabled = self._known[row] = end
            token = request.tokens.item(start) if start < request.num_tokens else _PENDING
            numbers += (row, request.slots.item(start), start, token)
        return np.array(numbers, np.int32).reshape(-1, NUMBERS)

    def _some(self, chunks: Sequence[Chunk], total: int) -> Ints:
        found = np.empty((total, NUMBERS), np.int32)
        rows, starts, counts, pending, at = [], [], [], [], 0
        for request, start, end in chunks:
            row = self._rows[request]
            request.num_tabled = self._known[row] = end
            rows.append(row)
            starts.append(start - at)
            counts.append(end - start)
            at += end - start
            if end > request.num_tokens:
                pending.append(at - 1)
        found[:, ROW] = np.repeat(rows, counts)
        found[:, SLOT] = np.concatenate([r.slots[start:end] for r, start, end in chunks])
        found[:, POSITION] = np.arange(total) + np.repeat(starts, counts)
        found[:, TOKEN] = np.concatenate([r.tokens[start:end] for r, start, end in chunks])
        found[pending, TOKEN] = _PENDING
        return found

    def number_scorings(self, chunks: Sequence[Chunk]) -> Ints | None:
        """As `number`, for scorings: each path through their tries has a row for this step. None:
        there are too many of them."""
        runs: list[tuple[int, int, Slots]] = []
        parts: list[Ints] = []
        row = self.padding[0]
        for request, start, end in chunks:
            assert request.scoring is not None
            trie = request.scoring.trie
            some = np.empty((end - start, NUMBERS), np.int32)
            some[:, SLOT], some[:, TOKEN] = request.slots[start:end], request.tokens[start:end]
            some[:, POSITION] = trie.positions[start:end]
            parts.append(some)
            at = 0
            for count, slots in trie.sequences(start, end, request.slots):
                row += 1
                runs.append((row, 0, slots))
                some[at : at + count, ROW] = row
                at += count
        if row - self.padding[0] > PASSING:
            return None
        self._send(runs)
        self.changed.update(row for row, _, _ in runs)
        return np.concatenate(parts)

    def _send(self, runs: Sequence[tuple[int, int, Slots]]) -> None:
        """Write runs of slots into both tables, each from a position of a row on."""
        head = NUMBERS * len(runs)
        lengths = [len(slots) for _, _, slots in runs]
        staged = self._uploads.stage(head + sum(lengths))
        table, packed, at = staged[:head].reshape(-1, NUMBERS), staged[head:], 0
        for i, (row, first, slots) in enumerate(runs):
            self.mirror[row, first : first + len(slots)] = slots
            packed[at : at + len(slots)] = slots
            table[i] = row, first, at, len(slots)
            at += len(slots)
        sent = self._uploads.send()
        runs_sent = sent[:head].view(-1, NUMBERS)
        self._kernels.fill_table(runs_sent, sent[head:], self.table, max(lengths))
