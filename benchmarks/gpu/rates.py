"""The highest rates of a GPU, and the seconds that work takes at them. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class GpuCeilings:
    """Medians of some tries.

    Attributes:
        copy_gb_s: bytes read and written together a second, device to device.
        matrix_tflop_s: of square products in bfloat16, the best size; 2 operations a multiply-add.
    """

    copy_gb_s: float
    matrix_tflop_s: float

    def to_dict(self) -> dict[str, float]:
        return {name: round(value, 1) for name, value in asdict(self).items()}

    def bytes_s(self, num_bytes: float) -> float:
        """Seconds for moving so many bytes."""
        return num_bytes / self.copy_gb_s / 1e9

    def operations_s(self, operations: float) -> float:
        """Seconds for so many operations."""
        return operations / self.matrix_tflop_s / 1e12

    @classmethod
    def of(cls, facts: Mapping[str, float]) -> GpuCeilings:
        """From `to_dict`."""
        return cls(facts["copy_gb_s"], facts["matrix_tflop_s"])
