"""Tensors of a step whose tokens are all decode rows, out of what the host says of each, in plain
torch."""

from __future__ import annotations

from dataclasses import dataclass

import torch

# Columns of what the host says of each token.
ROW, SLOT, POSITION, TOKEN = range(4)
NUMBERS = 4


@dataclass(frozen=True, slots=True)
class StepTensors:
    """What a step of up to T tokens reads; an entry a token."""

    ids: torch.Tensor  # [T] int64
    positions: torch.Tensor  # [T] int64
    out_slots: torch.Tensor  # [T] int64
    starts: torch.Tensor  # [T] int32: where the slots of the token's row begin in the slot table
    lens: torch.Tensor  # [T] int32: tokens it sees, itself included

    @classmethod
    def empty(cls, tokens: int, device: torch.device) -> StepTensors:
        def numbers(dtype: torch.dtype) -> torch.Tensor:
            return torch.empty(tokens, dtype=dtype, device=device)

        ids, positions, out_slots = (numbers(torch.int64) for _ in range(3))
        starts, lens = (numbers(torch.int32) for _ in range(2))
        return cls(ids, positions, out_slots, starts, lens)

    def first(self, tokens: int) -> StepTensors:
        """The first entries, in the same memory."""
        return StepTensors(
            self.ids[:tokens],
            self.positions[:tokens],
            self.out_slots[:tokens],
            self.starts[:tokens],
            self.lens[:tokens],
        )


def prepare_step(
    numbers: torch.Tensor, table: torch.Tensor, last_ids: torch.Tensor, out: StepTensors
) -> None:
    """Fill `out`, and write the slot of each token into the slot table.

    Args:
        numbers: `[T, 4]` int32: row of the table, slot, position, and id of each token; id -1: the
            one that was chosen last for the row. Tokens differ in row or position, but for
            padding.
        table: `[rows, max_context]` int32: the slots of each row's context.
        last_ids: `[rows]` int64; -1 counts as 0.
    """
    row, slot, position, token = (numbers[:, i].long() for i in range(NUMBERS))
    table[row, position] = slot.int()
    out.ids.copy_(torch.where(token < 0, last_ids[row].clamp(min=0), token))
    out.positions.copy_(position)
    out.out_slots.copy_(slot)
    out.starts.copy_(row * table.shape[1])
    out.lens.copy_(position + 1)


def fill_table(runs: torch.Tensor, slots: torch.Tensor, table: torch.Tensor, longest: int) -> None:
    """Write runs of slots into the slot table.

    Args:
        runs: `[R, 4]` int32: row, first position, first entry of `slots`, length.
        slots: int32.
        longest: the largest length.
    """
    for row, position, first, length in runs.tolist():
        table[row, position : position + length] = slots[first : first + length]
