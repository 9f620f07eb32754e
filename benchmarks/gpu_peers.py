"""Our engine on a GPU beside SGLang and vLLM, in one run on one machine.

    python -m benchmarks.gpu_peers --sglang-site DIR --vllm-site DIR

A Llama-3.1-8B-shaped model with random weights, the same files for all; prompts are the same random
ids, new ones in each repetition. Every engine has its own processes and the GPU for itself, in its
default set-up; temperature 0 and no end of text unless said. A part's prompts go in by one call of
each engine's interface for batches. `RULES`, which stands in the conditions of every result, says
what is equal for all engines, and what is not.

- a1, a2: 512 prompts that share 1,500 ids. b: 256 that share nothing. d: one. s: temperature 1.
- c: texts bound by a regex. Each peer's grammar back ends are tried; the best one counts.
  Engines break texts into tokens differently, so a ratio by characters stands beside.
- LM programs: calls with recorded lengths, each prompt made of recorded ids and of what the engine
  itself has generated in the calls before. Ours runs each call when those before it are done, on
  forks of its streams; peers take one batch a wave, all instances in parallel.

`--engines` and `--parts` make smaller runs. What was tried for missed goals comes from
`benchmarks/attempts/gpu_peers.json`; `--record-only` copies it into the results, measuring nothing.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common.attempts import attempts_path, lacking, read_attempts
from benchmarks.common.refusals import check_device, refusing
from benchmarks.common.results import ResultFile, default_path, result_path
from benchmarks.gpu.arguments import default_tokenizer, memory_folder, read_options
from benchmarks.gpu.lineup import ENTRANTS, Entrant, Lineup
from benchmarks.gpu.peer_report import (
    OURS,
    Figures,
    lines,
    part_result,
    prefill_floor_s,
    programs_result,
)
from benchmarks.gpu.rates import GpuCeilings
from benchmarks.gpu.shapes import SHAPES
from benchmarks.gpu.works import PeerPart, parts

PROGRAMS = "LM programs"
RULES = {
    "warm_up": "the same for every engine, once before a part: constrained parts and programs "
    "whole, of the others all prompts with at most 8 ids each. Ours begins with no kept masks",
    "figures": "the best run of each engine; all times stand beside it, fewer where time was short",
    "processes": "sgc runs in the process that asks it, through the streams of LocalBackend: not "
    "in a process of its own, its default on a GPU, which costs what process_overhead shows. "
    "Peers have their default: processes of their own",
    "grammar back ends": "'sglang, llguidance' and 'vllm, guidance' start side by side on the GPU, "
    "with smaller KV pools (sglang: 80,000 tokens, vllm: 12 GiB), and do constrained parts alone",
    "kv_pools": "not equal: sglang and vllm take 0.85 of the GPU's memory, weights included, sgc "
    "what its options say; kv_pool_tokens of each engine tells its tokens, where it names them",
}


class Board:
    """All figures of a run, written after each new one."""

    def __init__(self, file: ResultFile, floors: Mapping[str, float | None]) -> None:
        self._file, self._floors = file, floors
        self._figures: dict[str, dict[str, Figures]] = {}
        self._absent: dict[str, dict[str, str]] = {}
        self._engines: dict[str, Any] = {}
        self.results: dict[str, dict[str, Any]] = {}

    def about(self, engine: str, facts: dict[str, Any]) -> None:
        """An engine has started."""
        self._engines[engine] = facts
        self._file.add("engines", {"engines": dict(self._engines)})
        pool = f"{facts['kv_pool_tokens'] or 'untold'} tokens of KV pool"
        print(f"{engine}: {facts['name']} started in {facts['seconds']:.1f} s, {pool}", flush=True)

    def keep(self, engine: str, part: PeerPart, found: Figures | str) -> None:
        """A part's figures, or why there are none."""
        if isinstance(found, str):
            self._absent.setdefault(part.name, {})[engine] = found
            print(f"({part.name}) {engine}: {found}", flush=True)
        else:
            self._figures.setdefault(part.name, {})[engine] = found
        engines = self._figures.get(part.name, {})
        result = part_result(
            part, engines, self._absent.get(part.name, {}), self._floors[part.name]
        )
        self.results[part.name] = result
        self._file.add(part.name, result)
        mean = programs_result(self.results)
        if mean is not None and part.work.program is not None:
            self.results[PROGRAMS] = mean
            self._file.add(PROGRAMS, mean)
        if not isinstance(found, str):
            print("\n".join(lines(part.name, result)), flush=True)


def main(argv: list[str] | None = None) -> None:
    args = _arguments(argv)
    begin = time.monotonic()
    args.logs.mkdir(parents=True, exist_ok=True)
    if args.parts:
        with tempfile.TemporaryDirectory(dir=args.scratch) as scratch:
            _measure(args, begin, Path(scratch))
    file = ResultFile(args.output, what=__doc__ or "", conditions={})
    for name in file.parts:
        if name in args.attempts_by_part:
            file.note(name, "attempts", args.attempts_by_part[name])
        short = lacking(file.parts[name])
        if short:
            print(f"({name}) misses a goal; {args.attempts.name} needs {short} more attempts at it")


def _measure(args: argparse.Namespace, begin: float, scratch: Path) -> None:
    chosen = [part for name, part in parts(args.scale).items() if name in args.parts]
    entrants = [_entrant(args, name) for name in args.engines]
    lineup = Lineup(
        entrants, args.sites, scratch, args.logs, begin + args.budget, partial(_ready, args)
    )
    try:
        model = args.model or scratch / "model"
        facts = lineup.prepare(
            model=str(model),
            shape=args.shape,
            tokenizer=str(args.tokenizer),
            device=args.device,
        )
        print(f"ceilings: {facts['ceilings']}", flush=True)
        conditions = {**facts["conditions"], "rules": RULES}
        file = ResultFile(args.output, what=__doc__ or "", conditions=conditions, model=args.shape)
        file.add("ceilings", facts["ceilings"])
        ceilings, shape = GpuCeilings.of(facts["ceilings"]), SHAPES[args.shape]
        floors = {
            part.name: prefill_floor_s(part.work, shape, facts["vocab"], ceilings)
            for part in chosen
        }
        board = Board(file, floors)
        lineup.run(chosen, model, board)
    finally:
        lineup.close()


def _entrant(args: argparse.Namespace, name: str) -> Entrant:
    entrant = ENTRANTS[name]
    options = {"device": args.device, **args.options} if name == OURS else entrant.options
    return replace(entrant, options=options)


def _ready(args: argparse.Namespace, entrant: Entrant, part: PeerPart) -> str | None:
    """SGLang draws by a module of flashinfer, which it would compile in the middle of the run."""
    needed = entrant.kind == "sglang" and part.work.temperature > 0.0
    if needed and args.sampling_ready is not None and not args.sampling_ready.exists():
        return "flashinfer's sampling module is not built yet"
    return None


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    known = list(parts())
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sglang-site", type=Path, help="folder of SGLang's packages")
    parser.add_argument("--vllm-site", type=Path, help="folder of those that only vLLM needs")
    parser.add_argument("--engines", help=f"separated by semicolons: {'; '.join(ENTRANTS)}")
    parser.add_argument("--parts", default=",".join(known), help=f"any of {', '.join(known)}")
    parser.add_argument("--budget", type=float, default=450.0, help="seconds for everything")
    parser.add_argument("--record-only", action="store_true", help="copy the attempts, no more")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--shape", default="llama-8b", help="llama-8b, or tiny for a try")
    parser.add_argument("--scale", type=float, default=1.0, help="of all sizes, for a try")
    parser.add_argument("--tokenizer", type=Path, help="folder or GGUF file")
    parser.add_argument("--model", type=Path, help="where the model is made, or lies already")
    parser.add_argument("--scratch", type=Path, default=memory_folder(), help="folder in memory")
    parser.add_argument("--logs", type=Path, default=Path("out/gpu_peers"), help="of the engines")
    parser.add_argument(
        "--sampling-ready",
        type=Path,
        help="a file that comes into being when flashinfer's sampling module is built",
    )
    parser.add_argument(
        "--option", dest="options", action="append", default=[], help="of ours: NAME=JSON"
    )
    parser.add_argument("--output", type=result_path, default=default_path("gpu_peers"))
    parser.add_argument("--attempts", type=Path, default=attempts_path("gpu_peers"))
    args = parser.parse_args(argv)
    _complete(parser, args, known)
    return args


def _complete(parser: argparse.ArgumentParser, args: argparse.Namespace, known: list[str]) -> None:
    args.parts = [name for name in args.parts.split(",") if name and not args.record_only]
    args.sites = {}
    if args.sglang_site is not None:
        args.sites["sglang"] = (args.sglang_site,)
    if args.vllm_site is not None:
        args.sites["vllm"] = tuple(filter(None, (args.vllm_site, args.sglang_site)))
    there = [name for name, e in ENTRANTS.items() if name == OURS or e.kind in args.sites]
    args.engines = there if args.engines is None else args.engines.split("; ")
    unknown = (set(args.parts) - set(known)) | (set(args.engines) - set(there))
    if unknown:
        parser.error(f"unknown, or without its folder: {', '.join(sorted(unknown))}")
    args.options = read_options(args.options)
    if args.parts:
        check_device("gpu_peers", args.device)
    if args.parts and args.tokenizer is None:
        with refusing("gpu_peers"):
            args.tokenizer = default_tokenizer()
    try:
        args.attempts_by_part = read_attempts(args.attempts, [*known, PROGRAMS])
    except ValueError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
