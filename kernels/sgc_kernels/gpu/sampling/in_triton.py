"""The sampling kernels in Triton, under the names of `SamplingKernels`."""

from __future__ import annotations

from sgc_kernels.gpu.sampling.draw import draw
from sgc_kernels.gpu.sampling.greedy import greedy
from sgc_kernels.gpu.sampling.logprobs import logprobs_of
from sgc_kernels.gpu.sampling.penalties import adjust, restore

__all__ = ["adjust", "draw", "greedy", "logprobs_of", "restore"]
