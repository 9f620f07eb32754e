"""Keys and values of all layers in one pool of token slots, and who may use which slot."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from sgc_runtime.cache.radix_tree import Slots


class SlotAllocator:
    """Hands out slot numbers below `num_slots`, low ones first."""

    def __init__(self, num_slots: int) -> None:
        self.num_slots = num_slots
        self._stack = np.arange(num_slots - 1, -1, -1, dtype=np.int64)  # top is at the end
        self.free = num_slots

    def alloc(self, n: int) -> Slots | None:
        """`n` slots, or None when fewer are free."""
        if n > self.free:
            return None
        self.free -= n
        return self._stack[self.free : self.free + n][::-1].copy()

    def release(self, slots: Slots) -> None:
        """Take slots back; each must have been handed out and not be in use any more."""
        n = len(slots)
        assert self.free + n <= self.num_slots, "more slots released than handed out"
        self._stack[self.free : self.free + n] = slots[::-1]
        self.free += n

    def free_slots(self) -> Slots:
        """The free slot numbers, for checks."""
        return self._stack[: self.free].copy()


class KVPool:
    """The tensors of all layers, each `[num_slots + spare, num_kv_heads, head_dim]`.

    Memory is reserved at once; on a CPU the operating system hands out a page when a slot of it
    is first written. The `spare` slots are never handed out: what must be written somewhere, and
    is never read, goes there.
    """

    def __init__(
        self,
        num_layers: int,
        num_slots: int,
        num_kv_heads: int,
        head_dim: int,
        dtype: torch.dtype,
        device: torch.device,
        spare: int = 0,
    ) -> None:
        shape = (num_layers, num_slots + spare, num_kv_heads, head_dim)
        self.num_slots = num_slots
        self.k: Sequence[torch.Tensor] = _zeros(shape, dtype, device).unbind(0)
        self.v: Sequence[torch.Tensor] = _zeros(shape, dtype, device).unbind(0)


def _zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    if device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    # numpy asks the system for zeroed pages; torch would write gigabytes of them (3 s for 1 GB).
    data = np.zeros(math.prod(shape) * dtype.itemsize, np.uint8)
    return torch.from_numpy(data).view(dtype).view(shape)


def bytes_per_token(num_layers: int, num_kv_heads: int, head_dim: int, dtype: torch.dtype) -> int:
    """Memory of one slot: keys and values of all layers."""
    return 2 * num_layers * num_kv_heads * head_dim * dtype.itemsize
