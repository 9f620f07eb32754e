"""What this machine can do at best: memory bandwidth, matrix rate, and the floors they give."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

_LARGE = 1 << 28  # bytes, several times any cache


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Best of several tries.

    Attributes:
        read_gb_s: bytes read a second from memory, all threads.
        bf16_gflop_s: operations a second of a large bfloat16 product (2 for a multiply-add).
    """

    read_gb_s: float
    bf16_gflop_s: float

    def to_dict(self) -> dict[str, float]:
        return {name: round(value, 1) for name, value in asdict(self).items()}

    def best(self, other: Ceilings) -> Ceilings:
        """The higher of both: on a shared machine a single try may be slow."""
        return Ceilings(
            max(self.read_gb_s, other.read_gb_s), max(self.bf16_gflop_s, other.bf16_gflop_s)
        )

    def floor_s(self, num_bytes: float, operations: float) -> float:
        """Seconds below which work that moves and computes so much cannot come."""
        return max(num_bytes / self.read_gb_s, operations / self.bf16_gflop_s) / 1e9


def measure_ceilings() -> Ceilings:
    """Takes about a second."""
    import torch

    buffer = torch.ones(_LARGE // 8, dtype=torch.int64)
    read = _best(lambda: buffer.sum(), 8)
    # The shape of the largest product of a small model at a full prefill step.
    a = torch.randn(1024, 2048, dtype=torch.bfloat16)
    b = torch.randn(2048, 2048, dtype=torch.bfloat16)
    product = _best(lambda: torch.nn.functional.linear(a, b), 8)
    return Ceilings(_LARGE / read / 1e9, 2 * 1024 * 2048 * 2048 / product / 1e9)


def _best(work: Callable[[], Any], tries: int) -> float:
    work()
    times = []
    for _ in range(tries):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)
