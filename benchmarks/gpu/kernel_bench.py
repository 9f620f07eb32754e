"""What the benchmarks of kernels share: how a case is timed, and what its result says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

from benchmarks.gpu.clock import Work, graph_us, host_us
from benchmarks.gpu.rates import GpuCeilings

Item = TypeVar("Item")

POOLS = 4  # layers in rotation, so that no cache holds what the next call reads


@dataclass(slots=True)
class KernelBench:
    """Times calls, or only makes them once.

    Args:
        tiny: sizes for Triton's interpreter on a CPU.
        compile_only: call everything of ours once, so that its kernels lie in Triton's cache.
        turn: take the cases `turn[0]`, `turn[0] + turn[1]`, ... of those of a part.
        flashinfer: names of flashinfer's modules that are built: `decode`, `fa2`, `fa3`,
            `sampling`, `cascade`.
    """

    device: torch.device
    ceilings: GpuCeilings
    tiny: bool = False
    compile_only: bool = False
    turn: tuple[int, int] = (0, 1)
    flashinfer: frozenset[str] = frozenset()

    @property
    def dtype(self) -> torch.dtype:
        """The interpreter's products of bfloat16 are wrong."""
        return torch.float32 if self.tiny else torch.bfloat16

    def some(self, cases: Iterable[Item]) -> list[Item]:
        """Those whose turn it is."""
        return list(cases)[self.turn[0] :: self.turn[1]]

    def us(self, works: Sequence[Work]) -> float:
        """Microseconds of one of them inside a graph."""
        if not self.compile_only:
            return graph_us(works, self.device)
        works[0]()
        return 1.0

    def host_us(self, work: Work) -> float:
        """Microseconds of the host's time."""
        once = self.compile_only or self.tiny
        return host_us(work, self.device, tries=1 if once else 20)


@dataclass(slots=True)
class Case:
    """One row of the result: ours, and others on the same work.

    Attributes:
        floor_us: below which it cannot be done at the measured ceilings.
    """

    name: str
    floor_us: float
    ours: dict[str, Any] = field(default_factory=dict)
    others: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """`times_floor` of ours, and `speed_ratio`: the fastest other's time over ours."""
        found: dict[str, Any] = {"floor_us": round(self.floor_us, 1), **self.ours}
        us = self.ours.get("us")
        if us and self.floor_us:
            found["times_floor"] = round(us / self.floor_us, 2)
        found["others_us"] = self.others
        rest = [value for value in self.others.values() if isinstance(value, float)]
        if us and rest:
            found["speed_ratio"] = round(min(rest) / us, 2)
        return found


def attempt(into: dict[str, Any], name: str, work: Callable[[], float]) -> None:
    """Keep a peer's time, or why there is none: it may lack the form, or its module."""
    try:
        into[name] = round(work(), 2)
    except Exception as error:
        into[name] = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
        if torch.cuda.is_available():
            torch.cuda.synchronize()


def relative_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Of the norm."""
    return float((found.double() - expected).norm() / expected.norm())


def table(cases: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """For the screen."""
    lines = []
    for name, found in cases.items():
        if "us" not in found:
            lines.append(f"  {name:44} {found}")
            continue
        others = ", ".join(f"{other} {us}" for other, us in found.get("others_us", {}).items())
        lines.append(
            f"  {name:44} {found['us']:8.1f} us, floor {found['floor_us']:7.1f}"
            f" ({found.get('times_floor', 0):.2f}x)  [{others}]"
        )
    return lines
