"""Which version of the sampling kernels runs on a device."""

from __future__ import annotations

import logging
from typing import Protocol

import torch

from sgc_kernels.gpu.sampling.params import (
    Adjustments,
    IdTable,
    RowParams,
    Sampled,
    TokenList,
    TokenMasks,
    Workspace,
)

_LOG = logging.getLogger("sgc")


class SamplingKernels(Protocol):
    """The modules `in_triton` and `in_torch`."""

    def greedy(
        self,
        logits: torch.Tensor,
        work: Workspace,
        masks: TokenMasks | None = None,
        logprobs: bool = False,
        out: Sampled | None = None,
        kept: IdTable | None = None,
    ) -> Sampled:
        """The likeliest allowed token of each row."""
        ...

    def draw(
        self,
        logits: torch.Tensor,
        params: RowParams,
        work: Workspace,
        masks: TokenMasks | None = None,
        excluded: TokenList | None = None,
        filters: bool = True,
        logprobs: bool = False,
        out: Sampled | None = None,
        kept: IdTable | None = None,
    ) -> Sampled:
        """A token of each row by its parameters."""
        ...

    def logprobs_of(
        self,
        logits: torch.Tensor,
        rows: torch.Tensor,
        ids: torch.Tensor,
        out: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Log-probabilities of given tokens."""
        ...

    def apply_masks(self, logits: torch.Tensor, masks: TokenMasks) -> None:
        """What masks rule out is minus infinity then."""
        ...

    def adjust(self, logits: torch.Tensor, changes: Adjustments) -> None:
        """Penalties and bias, in place."""
        ...

    def restore(self, logits: torch.Tensor, changes: Adjustments) -> None:
        """Undo `adjust`."""
        ...


def sampling_kernels(device: torch.device) -> SamplingKernels:
    """Triton on a GPU, and torch elsewhere or where there is no Triton."""
    from sgc_kernels.gpu.sampling import in_torch

    if device.type == "cpu":
        return in_torch
    try:
        from sgc_kernels.gpu.sampling import in_triton
    except ImportError as error:
        _LOG.warning("no Triton here (%s): sampling runs in torch", error)
        return in_torch
    return in_triton
