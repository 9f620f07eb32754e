"""Our engine on a CPU beside transformers and llama.cpp, in one process run.

    python -m benchmarks.engine_cpu --data DIR

Every engine replays one recorded run: the same prompts and lengths, EOS ignored, an empty prefix
cache at the beginning of each repetition, the same number of threads. Ours runs the program, so
its times hold tokenising and executing; the peers get the ids ready made. Parts that are not
measured stay in the result file as they are; what was tried for missed goals is put beside their
figures (`--parts ''` does only that).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.common.attempts import attempts_path, lacking, read_attempts
from benchmarks.common.conditions import conditions, cores, use_threads
from benchmarks.common.peer import PEERS
from benchmarks.common.results import ResultFile, default_path, result_path
from benchmarks.common.timing import ENGINE_S

_WHAT = "our engine beside transformers and llama.cpp on a CPU"
_PARTS = "abcde"


def main(argv: list[str] | None = None) -> None:
    args = _arguments(argv)
    if args.parts:
        use_threads(args.threads)
        _measure(args)
    file = ResultFile(args.output, what=_WHAT, conditions={})
    for name in file.parts:
        if name in args.attempts_by_part:
            file.note(name, "attempts", args.attempts_by_part[name])
        short = lacking(file.parts[name])
        if short:
            print(f"({name}) misses a goal; {args.attempts.name} needs {short} more attempts at it")


def _measure(args: argparse.Namespace) -> None:
    # What brings in torch comes after its threads are set.
    from benchmarks.common.ceilings import measure_ceilings
    from benchmarks.common.data import Data
    from benchmarks.common.lineup import CALIBRATED, KV_TOKENS, Lineup
    from benchmarks.common.parts import PARTS
    from benchmarks.common.report import lines, part_result
    from benchmarks.common.sizes import model_sizes
    from sgc_runtime.models import resolve

    model, data = Path(resolve(args.model)), Data(args.data)
    ceilings, sizes = measure_ceilings(), model_sizes(model)
    lineup = Lineup(model, args.peers, args.threads, args.engine_seconds)
    file = ResultFile(
        args.output,
        what=_WHAT,
        conditions=conditions(args.threads),
        data=data.source,
        limit=args.limit,
        model=model.name,
        dtype="bfloat16 (llama.cpp: the file's own)",
        kv_tokens=KV_TOKENS,
        engine_seconds=args.engine_seconds,
        left_out=lineup.missing,
    )
    print(f"data: {data.source}")
    print("".join(f"left out: {reason}\n" for reason in lineup.missing.values()), end="")
    print(f"ceilings: {ceilings.to_dict()}", flush=True)
    for name in args.parts:
        part = PARTS[name]
        measured = lineup.measure_part(part, data, args.limit, args.repetitions)
        ceilings = ceilings.best(measure_ceilings())
        result = part_result(part, measured, lineup, sizes, ceilings)
        if measured.rates:
            file.add(CALIBRATED, result["unshared_rates"][CALIBRATED])
        file.add(name, result)
        print("\n".join(lines(name, result)), flush=True)
    lineup.close()


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of public evaluation sets")
    parser.add_argument("--limit", type=int, help="rows a part at most, and shorter gens")
    parser.add_argument("--parts", default=_PARTS, help="which of a, b, c, d, e")
    parser.add_argument("--peers", default=",".join(PEERS), help="any of them, or empty")
    parser.add_argument("--repetitions", type=int, help="timed ones of each part, at most")
    parser.add_argument(
        "--engine-seconds",
        type=float,
        default=ENGINE_S,
        help="an engine is timed less often in a part where its repetitions would take longer",
    )
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--output", type=result_path, default=default_path("engine_cpu"))
    parser.add_argument("--attempts", type=Path, default=attempts_path("engine_cpu"))
    args = parser.parse_args(argv)
    args.peers = [name for name in args.peers.split(",") if name]
    unknown = (set(args.peers) - set(PEERS)) | (set(args.parts) - set(_PARTS))
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; peers are {', '.join(PEERS)}")
    try:
        args.attempts_by_part = read_attempts(args.attempts, _PARTS)
    except ValueError as error:
        parser.error(str(error))
    return args


if __name__ == "__main__":
    main()
