"""Our engine on a GPU beside what the hardware can do, with a Llama-3.1-8B-shaped model.

    python -m benchmarks.gpu_engine

Random weights, made on the spot; prompts are random ids. Ceilings come from the same run: bytes
that a device copy moves (read and written), and operations of the best square product in bfloat16.

- `decode 1`, `decode 64`: time of a step, as the difference between a run of many tokens and one
  of one token over the steps, prompts cached. Floor: the weights' bytes (with `decode 64` those of
  the keys and values, too) at the copy rate.
- `prefill`: prompts of 2,048 ids that share nothing. Floor: operations of products and attention.
- `decode shared`: 256 rows behind one prefix; time of decode attention a layer (any of its kernels
  running) over the bytes of all distinct keys and values at the copy rate.
- `idle`: share of a window of steady decode in which no kernel runs, by torch's profiler: gaps
  above 10 us, which is where the GPU waits for the host.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common.refusals import check_device, refusing
from benchmarks.common.results import ResultFile, default_path, result_path
from benchmarks.gpu.arguments import default_tokenizer, memory_folder, read_options

PARTS = ("load", "decode 1", "decode 64", "prefill", "decode shared")


def main(argv: list[str] | None = None) -> None:
    args = _arguments(argv)
    import torch

    from benchmarks.gpu.gpu_conditions import gpu_conditions

    device = torch.device(args.device)
    file = ResultFile(
        args.output,
        what=__doc__ or "",
        conditions=gpu_conditions(device),
        model=args.shape,
        options=args.options,
    )
    with tempfile.TemporaryDirectory(dir=args.scratch) as scratch:
        _measure(args, device, file, Path(scratch))


def _measure(args: argparse.Namespace, device: Any, file: ResultFile, scratch: Path) -> None:
    from benchmarks.gpu.ceilings import measure_ceilings
    from benchmarks.gpu.engine_parts import FULL, PARTS, SMALL, Bench
    from benchmarks.gpu.model_files import make_model
    from benchmarks.gpu.sgc_ids import SgcIds
    from benchmarks.gpu.shapes import SHAPES
    from benchmarks.gpu.trace import record

    shape = SHAPES[args.shape]
    ceilings = measure_ceilings(device)
    file.add("ceilings", ceilings.to_dict())
    print(f"ceilings: {ceilings.to_dict()}", flush=True)
    model = make_model(args.model or scratch / "model", shape, args.tokenizer, device)
    engine = SgcIds(str(model), device=args.device, **args.options)
    sizes = FULL if args.shape == "llama-8b" else SMALL
    if device.type == "cuda":
        record(0.01)  # the profiler's own start takes a while
    bench = Bench(engine, shape, ceilings, sizes, device.type == "cuda")
    for name in args.parts:
        try:
            found = PARTS[name](bench)
        except Exception as error:  # the other parts are still worth their time
            found = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"}
        file.add(name, {"ceilings": ceilings.to_dict(), **found})
        print(_line(name, found), flush=True)
    file.add("counters", engine.stats())
    engine.close()


def _line(name: str, found: dict[str, Any]) -> str:
    return f"{name}: " + json.dumps({k: v for k, v in found.items() if k != "kernels"})


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parts", default=",".join(PARTS), help=f"any of {', '.join(PARTS)}")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--shape", default="llama-8b", help="llama-8b, or tiny for a try")
    parser.add_argument(
        "--tokenizer",
        type=Path,
        help="folder with a tokenizer.json, or a GGUF file; default: that of the default model",
    )
    parser.add_argument("--model", type=Path, help="where the model is made, or lies already")
    parser.add_argument("--scratch", type=Path, default=memory_folder(), help="a folder in memory")
    parser.add_argument(
        "--option", dest="options", action="append", default=[], help="of the engine: NAME=JSON"
    )
    parser.add_argument("--output", type=result_path, default=default_path("gpu_engine"))
    args = parser.parse_args(argv)
    args.parts = [name for name in args.parts.split(",") if name]
    unknown = set(args.parts) - set(PARTS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; parts are {', '.join(PARTS)}")
    args.options = read_options(args.options)
    check_device("gpu_engine", args.device)
    if args.tokenizer is None and args.model is None:
        with refusing("gpu_engine"):
            args.tokenizer = default_tokenizer()
    return args


if __name__ == "__main__":
    main()
