"""What a step's sampling gives, behind each other in one piece of memory that is copied once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from sgc_runtime.device.sample_rows import padded

_LEAST = 1 << 10


@dataclass(frozen=True, slots=True)
class Section:
    """Numbers in an output: int64 or float32."""

    first: int
    count: int
    is_int64: bool = False

    @property
    def _end(self) -> int:
        return self.first + self.count * (1 + self.is_int64)

    def of(self, memory: torch.Tensor) -> torch.Tensor:
        """The numbers in the output's memory (int32)."""
        return memory[self.first : self._end].view(torch.int64 if self.is_int64 else torch.float32)

    def ints(self, numbers: NDArray[np.int32]) -> NDArray[np.int64]:
        """The same on the host."""
        return numbers[self.first : self._end].view(np.int64)

    def floats(self, numbers: NDArray[np.int32]) -> NDArray[np.float32]:
        """The same on the host."""
        return numbers[self.first : self._end].view(np.float32)


class Layout:
    """Which sections there are."""

    def __init__(self) -> None:
        self.size = 0

    def ints(self, count: int) -> Section:
        """A section of int64."""
        return self._add(Section(self.size, count, is_int64=True))

    def floats(self, count: int) -> Section:
        """A section of float32."""
        return self._add(Section(self.size, count))

    def _add(self, section: Section) -> Section:
        self.size += padded(section.count * (1 + section.is_int64))
        return section


class Output:
    """Memory of an output on both sides; used again when it has been read."""

    def __init__(self, size: int, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        self.memory = torch.empty(size, dtype=torch.int32, device=device)
        self._host = (
            torch.empty(size, dtype=torch.int32, pin_memory=True) if self._on_gpu else self.memory
        )
        self._event = torch.cuda.Event() if self._on_gpu else None  # type: ignore[no-untyped-call]
        self._size = 0

    def send(self, size: int) -> None:
        """Begin the copy of the first `size` numbers, behind what the stream does."""
        self._size = size
        if self._event is not None:
            self._host[:size].copy_(self.memory[:size], non_blocking=True)
            self._event.record()

    def wait(self) -> NDArray[np.int32]:
        """The numbers, when they have come; valid until the next `send`."""
        if self._event is not None:
            self._event.synchronize()
        found: NDArray[np.int32] = self._host.numpy()[: self._size]
        return found


class Outputs:
    """Outputs that are free."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._free: list[Output] = []

    def take(self, size: int) -> Output:
        """One of `size` numbers at least. One that is not given back is lost."""
        while self._free:
            output = self._free.pop()
            if len(output.memory) >= size:
                return output
        return Output(max(_LEAST, 1 << (size - 1).bit_length()), self._device)

    def give_back(self, output: Output) -> None:
        """It has been read."""
        self._free.append(output)
