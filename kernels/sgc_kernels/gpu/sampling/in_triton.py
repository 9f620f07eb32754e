"""The sampling kernels in Triton, under the names of `SamplingKernels`."""

from __future__ import annotations

from sgc_kernels.gpu.sampling.draw import draw
from sgc_kernels.gpu.sampling.greedy import greedy
from sgc_kernels.gpu.sampling.logprobs import logprobs_of
from sgc_kernels.gpu.sampling.masking import apply_masks
from sgc_kernels.gpu.sampling.penalties import adjust, restore

__all__ = ["adjust", "apply_masks", "draw", "greedy", "logprobs_of", "restore"]
