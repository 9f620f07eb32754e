"""Parameters of the sampled rows on the device; what does not change is not sent again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from sgc_kernels.gpu.sampling.params import RowParams
from sgc_runtime.device.uploads import Uploads
from sgc_runtime.sampling.row import SamplingRow

DRAWS, FILTERS, BOUND, LOGPROBS, CHANGES, PENALTIES, HEALS = (1 << i for i in range(7))

_INT64, _TOP_K = np.iinfo(np.int64), np.iinfo(np.int32)
# Of each row: temperature, top_p and min_p as bits of float32, and top_k.
_TEMPERATURE, _TOP_P, _MIN_P, _TOP_K_ROW = range(4)

Ints = NDArray[np.int32]


def flags_of(row: SamplingRow) -> int:
    """What a row asks for, which stays as it is: a sum of `DRAWS`, ... `CHANGES`: perhaps its
    logits are not used as they are; `PENALTIES`: they are not."""
    p = row.params
    flags = 0 if p.greedy else DRAWS
    if not p.greedy and (p.top_k > 0 or p.top_p < 1.0 or p.min_p > 0.0):
        flags |= FILTERS
    if row.rule is not None:
        flags |= BOUND
    if row.wants_logprobs:
        flags |= LOGPROBS
    if p.repetition_penalty != 1.0 or p.frequency_penalty != 0.0 or p.presence_penalty != 0.0:
        flags |= CHANGES | PENALTIES
    if p.logit_bias or row.held_back:
        flags |= CHANGES
    if row.healing is not None:
        flags |= CHANGES | HEALS
    return flags


def padded(count: int) -> int:
    """`count` numbers of 32 bits and what fills their last 16 bytes: kernels are compiled anew for
    memory that does not begin at a multiple of these."""
    return -(-count // 4) * 4


class ParamTable:
    """Parameters of rows by place, on the host."""

    def __init__(self, places: int) -> None:
        self._rows: list[SamplingRow | None] = [None] * places
        self._flags = np.zeros(places, np.int64)
        self._seeds = np.zeros(places, np.int64)
        self._numbers = np.zeros((4, places), np.int32)

    def flags(self, rows: Sequence[SamplingRow], places: Sequence[int]) -> NDArray[np.int64]:
        """`flags_of` of `rows`, which are at `places` from now on."""
        known = self._rows
        for row, place in zip(rows, places, strict=True):
            if known[place] is not row:
                self._learn(row, place)
        return self._flags[places]

    def _learn(self, row: SamplingRow, place: int) -> None:
        self._rows[place] = row
        self._flags[place] = flags_of(row)
        self._seeds[place] = _signed(row.seed)
        self._numbers[:, place] = _numbers(row)

    def write(self, out: Ints, at: NDArray[np.int64], places: NDArray[np.int64]) -> None:
        """Write the parameters of `places` to rows `at` of a block (see `block_size`)."""
        size = len(out) // _BLOCK
        out[: 2 * size].view(np.int64)[at] = self._seeds[places]
        out[4 * size : 8 * size].reshape(4, size)[:, at] = self._numbers[:, places]


_BLOCK = (
    9  # numbers of 32 bits a row: seed and step, both of 64, the four of the table, and a place
)


def block_size(rows: int) -> int:
    """Numbers of 32 bits that the parameters of `rows` rows take."""
    return _BLOCK * padded(rows)


def write_steps(out: Ints, at: NDArray[np.int64], steps: Sequence[int]) -> None:
    """Write the steps of rows `at`."""
    size = len(out) // _BLOCK
    out[2 * size : 4 * size].view(np.int64)[at] = steps


def as_params(block: torch.Tensor, rows: int) -> RowParams:
    """Parameters out of a block on the device."""
    size = len(block) // _BLOCK
    seed, step = (block[2 * i * size :][: 2 * size].view(torch.int64)[:rows] for i in range(2))
    parts = [block[i * size :][:rows] for i in range(4, _BLOCK)]
    heat, top_p, min_p = (parts[i].view(torch.float32) for i in (_TEMPERATURE, _TOP_P, _MIN_P))
    return RowParams(heat, parts[_TOP_K_ROW], top_p, min_p, seed, step)


def params_of(rows: Sequence[SamplingRow], steps: Sequence[int], uploads: Uploads) -> RowParams:
    """Parameters of `rows` at `steps`, sent now."""
    table, places = ParamTable(len(rows)), np.arange(len(rows))
    table.flags(rows, places.tolist())
    block = uploads.stage(block_size(len(rows)))
    block[:] = 0
    table.write(block, places, places)
    write_steps(block, places, steps)
    return as_params(uploads.send(), len(rows))


def _signed(number: int) -> int:
    return (number - int(_INT64.min)) % (1 << 64) + int(_INT64.min)


def _numbers(row: SamplingRow) -> Ints:
    p, found = row.params, np.empty(4, np.int32)
    with np.errstate(over="ignore"):  # what is beyond float32 is the hottest of all
        found.view(np.float32)[:3] = 0.0 if p.greedy else p.temperature, p.top_p, p.min_p
    found[_TOP_K_ROW] = min(p.top_k, _TOP_K.max)
    return found


class StepRows:
    """The rows of the last step, to send what is new of the next one.

    Attributes:
        count: rows of the logits that are looked at: all up to the last that is sampled.
        at: row of the logits of each sampled one.
        flags: `flags_of` each.
        places: int32 `[count]` on the device; -1 for rows that are not sampled.
        params: of the `count` rows, on the device; None: no row draws.
    """

    def __init__(self, places: int, uploads: Uploads) -> None:
        self._table = ParamTable(places)
        self._uploads = uploads
        self._rows: list[SamplingRow] = []
        self._place_list: list[int] = []
        self._steps: list[int] = []
        self.at: list[int] = []
        self.count = 0
        self.flags = np.zeros(0, np.int64)
        self.asked = 0
        self.params: RowParams | None = None
        self.places: torch.Tensor | None = None

    def take(self, rows: list[SamplingRow], at: list[int], places: list[int]) -> None:
        """Bring everything to the next step's rows."""
        same = rows == self._rows and at == self.at and places == self._place_list
        if same and not self.asked & DRAWS:
            return
        steps = [row.step for row in rows]
        if same and steps == self._steps:
            assert self.params is not None
            self.params.step.add_(1)
        else:
            self._send(rows, at, places, steps)
        self._steps = [step + 1 for step in steps]

    def _send(
        self, rows: list[SamplingRow], at: list[int], places: list[int], steps: list[int]
    ) -> None:
        self._rows = []  # until all is there
        self.flags = self._table.flags(rows, places)
        self.asked = int(np.bitwise_or.reduce(self.flags, initial=0))
        self.count = max(at, default=-1) + 1
        where, given = np.array(at, np.int64), np.array(places, np.int64)
        size = padded(self.count)
        params = block_size(self.count) if self.asked & DRAWS else 0
        staged = self._uploads.stage(size + params)
        staged[:size] = -1
        staged[where] = given
        if params:
            block = staged[size:]
            block[:] = 0
            self._table.write(block, where, given)
            write_steps(block, where, steps)
        sent = self._uploads.send()
        self.places = sent[: self.count]
        self.params = as_params(sent[size:], self.count) if params else None
        self._rows, self.at, self._place_list = rows, at, places

    def asking(self, flag: int) -> list[int]:
        """The places in `at` of the rows with a flag."""
        found: list[int] = np.flatnonzero(self.flags & flag).tolist() if self.asked & flag else []
        return found
