"""The feed-forward part of a layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from sgc_kernels.linear import Linear
from sgc_kernels.moe import Experts
from sgc_kernels.select import Kernels


class Mlp(Protocol):
    """A layer's feed-forward part with its weights."""

    def __call__(self, x: torch.Tensor, kernels: Kernels) -> torch.Tensor:
        """`x` `[T, hidden]`, T > 0, to `[T, hidden]`; no row depends on another."""
        ...


@dataclass(frozen=True, slots=True)
class DenseMlp:
    """One gated network for every token."""

    gate_up: Linear  # hidden -> 2 * intermediate, the gate first
    down: Linear

    def __call__(self, x: torch.Tensor, kernels: Kernels) -> torch.Tensor:
        return self.down(kernels.silu_mul(self.gate_up(x)))


@dataclass(frozen=True, slots=True)
class MoeMlp:
    """A few networks of many for each token."""

    experts: Experts

    def __call__(self, x: torch.Tensor, kernels: Kernels) -> torch.Tensor:
        return kernels.moe(x, self.experts)
