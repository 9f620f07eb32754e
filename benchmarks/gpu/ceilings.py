"""What a GPU can do at best: copy rate and matrix rate, measured beside what is compared to them.

python -m benchmarks.gpu.ceilings [--device cuda]
"""

from __future__ import annotations

import argparse
import json

import torch

from benchmarks.gpu.clock import median_us
from benchmarks.gpu.rates import GpuCeilings

_COPY_BYTES = {"cuda": 4 << 30, "cpu": 1 << 22}
_SIDES = {"cuda": (8192, 4096), "cpu": (128,)}


def measure_ceilings(device: torch.device) -> GpuCeilings:
    """Takes a second or two, and 8 GB on a GPU, which are given back."""
    copied = 2e-3 * _COPY_BYTES[device.type] / _copy_us(_COPY_BYTES[device.type], device)
    matrix = max(_matrix_rate(side, device) for side in _SIDES[device.type])
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return GpuCeilings(copied, matrix)


def _copy_us(num_bytes: int, device: torch.device) -> float:
    source = torch.ones(num_bytes // 8, dtype=torch.int64, device=device)
    target = torch.empty_like(source)
    return median_us(lambda: target.copy_(source), device)


def _matrix_rate(side: int, device: torch.device) -> float:
    a, b = (torch.randn(side, side, device=device, dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(a)
    return 2e-6 * side**3 / median_us(lambda: torch.mm(a, b, out=out), device)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda")
    device = torch.device(parser.parse_args(argv).device)
    print(json.dumps(measure_ceilings(device).to_dict()))


if __name__ == "__main__":
    main()
