"""The product's GPU kernels beside flashinfer's and torch's best, and beside the hardware's floor.

    python -m benchmarks.gpu_kernels [--flashinfer fa2,sampling]

Microseconds of a call inside a CUDA graph, four pools (layers) in rotation, slots of one token
anywhere in the pool; flashinfer has pages of 16 (E: of 1). 32 / 8 heads of 128 numbers, bfloat16.
Plans are made before, by the product's own planner and tuning. Floors: distinct bytes at the copy
rate, or operations at the matrix rate, whichever takes longer, both rates measured in the same run.
`error` is against float64. flashinfer's modules are compiled at their first use, which takes
minutes; only those that are named are used (`python -m benchmarks.gpu.flashinfer_peer NAME` builds
one).
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.common.refusals import check_device
from benchmarks.common.results import ResultFile, default_path, result_path

PARTS = ("decode", "prefill", "sampling", "products")
MODULES = ("decode", "fa2", "fa3", "sampling", "cascade")
_SPLIT = {"decode": 4, "prefill": 4, "sampling": 3, "products": 1}  # processes that compile
_COMPILE_S = 90.0


def main(argv: list[str] | None = None) -> None:
    args = _arguments(argv)
    import torch

    device = torch.device(args.device)
    if device.type == "cuda":
        _compile_at_once(args.parts)  # before this process touches the GPU: it is forked
    from benchmarks.gpu.ceilings import measure_ceilings
    from benchmarks.gpu.gpu_conditions import gpu_conditions
    from benchmarks.gpu.kernel_bench import KernelBench, table

    file = ResultFile(
        args.output,
        what=__doc__ or "",
        conditions=gpu_conditions(device),
        flashinfer=sorted(args.flashinfer),
    )
    ceilings = measure_ceilings(device)
    print(f"ceilings: {ceilings.to_dict()}", flush=True)
    bench = KernelBench(device, ceilings, args.tiny, flashinfer=args.flashinfer)
    for part in args.parts:
        cases: dict[str, Any] = {}
        for name, found in _measured(part, bench):
            cases[name] = found
            print("\n".join(table({name: found})), flush=True)
            file.add(part, {"ceilings": ceilings.to_dict(), "cases": cases})


def _measured(part: str, bench: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """A part's cases until one fails."""
    number = 0
    try:
        for case in _cases(part)(bench):
            number += 1
            yield case.name, case.to_dict()
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"
        yield f"{part}, behind {number} cases", {"error": reason}


def _cases(part: str) -> Callable[[Any], Iterator[Any]]:
    if part == "decode":
        from benchmarks.gpu.kernels_decode import decode_cases

        return decode_cases
    if part == "prefill":
        from benchmarks.gpu.kernels_prefill import prefill_cases

        return prefill_cases
    if part == "sampling":
        from benchmarks.gpu.kernels_sampling import sampling_cases

        return sampling_cases
    from benchmarks.gpu.kernels_products import product_cases

    return product_cases


def _compile_at_once(parts: list[str]) -> None:
    """Kernels of all parts side by side; what is not ready in time is compiled where it is used."""
    context = multiprocessing.get_context("fork")
    jobs = [
        context.Process(target=_compile, args=(part, (i, _SPLIT[part])), daemon=True)
        for part in parts
        for i in range(_SPLIT[part])
    ]
    for job in jobs:
        job.start()
    end = time.monotonic() + _COMPILE_S
    for job in jobs:
        job.join(max(0.0, end - time.monotonic()))
        if job.is_alive():
            job.kill()


def _compile(part: str, turn: tuple[int, int]) -> None:
    import torch

    from benchmarks.gpu.kernel_bench import KernelBench
    from benchmarks.gpu.rates import GpuCeilings

    ceilings = GpuCeilings(1.0, 1.0)
    bench = KernelBench(torch.device("cuda"), ceilings, compile_only=True, turn=turn)
    for _ in _measured(part, bench):
        pass


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parts", default=",".join(PARTS), help=f"any of {', '.join(PARTS)}")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="for Triton's interpreter")
    parser.add_argument("--flashinfer", default="", help=f"any of {', '.join(MODULES)}")
    parser.add_argument("--output", type=result_path, default=default_path("gpu_kernels"))
    args = parser.parse_args(argv)
    args.parts = [name for name in args.parts.split(",") if name]
    args.flashinfer = frozenset(name for name in args.flashinfer.split(",") if name)
    unknown = (set(args.parts) - set(PARTS)) | (args.flashinfer - set(MODULES))
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    check_device("gpu_kernels", args.device)
    return args


if __name__ == "__main__":
    main()
