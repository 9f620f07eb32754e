"""Tensors of files into tensors that the model keeps, straight to a GPU where it is on one."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import torch

from sgc_ir.errors import ModelError
from sgc_runtime.model.devices import use_device

BLOCK_BYTES = 16 << 20  # two of pinned memory for each thread that loads


class Upload:
    """Copies tensors to a device, block by block; from several threads at once.

    On a GPU each thread reads a block of the file into pinned memory while the block before is
    sent, so that nothing is held twice, neither on the host nor on the GPU. What is launched on the
    thread's stream behind a copy comes after it.
    """

    def __init__(self, device: torch.device, block_bytes: int = BLOCK_BYTES) -> None:
        self.device = device
        self._block_bytes = block_bytes
        self._own = threading.local()

    def tensor(self, source: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """`source` as `dtype` on the device; on a CPU itself, if it is that already."""
        if self.device.type != "cuda":
            return source.to(self.device, dtype)
        return self.stacked([source], dtype)

    def stacked(self, sources: Sequence[torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
        """`torch.cat(sources)` as `dtype` on the device, in memory of its own."""
        rows = sum(len(source) for source in sources)
        whole = self.empty((rows, *sources[0].shape[1:]), dtype)
        first = 0
        for source in sources:
            self.fill(whole[first : first + len(source)], source)
            first += len(source)
        return whole

    def fill(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Copy `source`, a tensor on the CPU, into the contiguous `target` of the same shape."""
        if self.device.type == "cuda":
            self._staging().fill(target.view(-1), source.reshape(-1))
        else:
            target.copy_(source)

    def finish(self) -> None:
        """Wait until everything has arrived."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Memory for a weight. Raises ModelError if the device has too little."""
        try:
            return torch.empty(shape, dtype=dtype, device=self.device)
        except torch.OutOfMemoryError as error:
            free, _ = torch.cuda.mem_get_info(self.device)
            raise ModelError(
                f"the model's weights do not fit into device {self.device}, which has "
                f"{free >> 20} MiB left: give another device or a smaller model"
            ) from error

    def _staging(self) -> _Staging:
        staging: _Staging | None = getattr(self._own, "staging", None)
        if staging is None:
            use_device(self.device)
            staging = self._own.staging = _Staging(self.device, self._block_bytes)
        return staging


class _Staging:
    """Two pinned blocks of one thread, used in turn."""

    def __init__(self, device: torch.device, block_bytes: int) -> None:
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._blocks = [
            torch.empty(block_bytes, dtype=torch.uint8, pin_memory=True) for _ in range(2)
        ]
        self._sent = [torch.cuda.Event() for _ in range(2)]  # type: ignore[no-untyped-call]
        self._turn = 0

    def fill(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Send `source` `[n]` to `target` `[n]`, converted on the host."""
        size = self._blocks[0].numel() // target.element_size()
        current = torch.cuda.current_stream(target.device)
        self._stream.wait_stream(current)
        for first in range(0, len(target), size):
            part = source[first : first + size]
            event, block = self._sent[self._turn], self._blocks[self._turn].view(target.dtype)
            event.synchronize()
            block[: len(part)].copy_(part)
            with torch.cuda.stream(self._stream):
                target[first : first + size].copy_(block[: len(part)], non_blocking=True)
            event.record(self._stream)
            self._turn = 1 - self._turn
        current.wait_stream(self._stream)
