"""Numbers on their way to the device, in pinned memory: no transfer waits for the stream."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

Ints = NDArray[np.int32]
_TURNS = 8  # transfers on their way at once before one is waited for
_LEAST = 1 << 12


class Uploads:
    """A ring of pinned buffers of int32, which grow as needed.

    `stage` gives memory to write to, `send` copies it in the order of the current stream; each
    `send` follows its `stage`.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._on_gpu = device.type == "cuda"
        self._buffers = [self._buffer(_LEAST) for _ in range(_TURNS)]
        self._arrived: list[torch.cuda.Event | None] = [None] * _TURNS
        self._turn = 0
        self._size = 0

    def stage(self, size: int) -> Ints:
        """Memory for `size` numbers, with anything in it."""
        self._turn = (self._turn + 1) % _TURNS
        event = self._arrived[self._turn]
        if event is not None:
            event.synchronize()  # passed long ago, unless the host is steps ahead
        if len(self._buffers[self._turn]) < size:
            self._buffers[self._turn] = self._buffer(1 << (size - 1).bit_length())
        self._size = size
        numbers: Ints = self._buffers[self._turn].numpy()[:size]
        return numbers

    def send(self, out: torch.Tensor | None = None) -> torch.Tensor:
        """What was staged, on the device: `[size]` int32, in `out` or in memory of its own."""
        host = self._buffers[self._turn][: self._size]
        if out is None:
            out = torch.empty(self._size, dtype=torch.int32, device=self._device)
        out.view(-1).copy_(host, non_blocking=True)
        if self._on_gpu:
            event = self._arrived[self._turn]
            if event is None:
                event = self._arrived[self._turn] = _event()
            event.record(torch.cuda.current_stream(self._device))
        return out

    def _buffer(self, size: int) -> torch.Tensor:
        return torch.empty(size, dtype=torch.int32, pin_memory=self._on_gpu)


def _event() -> torch.cuda.Event:
    return torch.cuda.Event()  # type: ignore[no-untyped-call]
