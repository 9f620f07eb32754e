"""Our engine on a CPU beside transformers and llama.cpp, in one process run.

    python -m benchmarks.engine_cpu --data DIR

Every engine replays one recorded run: the same prompts and lengths, EOS ignored, an empty prefix
cache at the beginning of each repetition, the same number of threads. Ours runs the program, so
its times hold tokenising and executing; the peers get the ids ready made.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.common.conditions import conditions, cores, use_threads
from benchmarks.common.peer import PEERS
from benchmarks.common.results import ResultFile, default_path


def main(argv: list[str] | None = None) -> None:
    args = _arguments(argv)
    use_threads(args.threads)
    # What brings in torch comes after its threads are set.
    from benchmarks.common.ceilings import measure_ceilings
    from benchmarks.common.data import Data
    from benchmarks.common.lineup import KV_TOKENS, Lineup
    from benchmarks.common.parts import PARTS
    from benchmarks.common.report import lines, part_result
    from benchmarks.common.sizes import model_sizes
    from sgc_runtime.models import resolve

    model, data = Path(resolve(args.model)), Data(args.data)
    ceilings, sizes = measure_ceilings(), model_sizes(model)
    lineup = Lineup(model, args.peers, args.threads)
    head = {
        "what": "our engine beside transformers and llama.cpp on a CPU",
        "data": data.source,
        "limit": args.limit,
        "model": model.name,
        "dtype": "bfloat16 (llama.cpp: the file's own)",
        "kv_tokens": KV_TOKENS,
        "conditions": conditions(args.threads),
        "ceilings": ceilings.to_dict(),
        "peers": lineup.methods(),
        "missing": lineup.missing,
    }
    print(f"data: {data.source}")
    print("".join(f"left out: {reason}\n" for reason in lineup.missing.values()), end="")
    print(f"ceilings: {ceilings.to_dict()}")
    file = ResultFile(args.output, **head)
    if any(PARTS[name].shares for name in args.parts):
        found = lineup.calibrate(data, args.limit, args.repetitions)
        file.add("calibration", found)
        print(f"unshared work, tokens a second: {found}", flush=True)
    for name in args.parts:
        part = PARTS[name]
        job = part.make(data, args.limit)
        ceilings = ceilings.best(measure_ceilings())
        measured = lineup.measure(job, args.repetitions or part.repetitions)
        result = part_result(part, measured, lineup, sizes, ceilings)
        file.add(name, result)
        print("\n".join(lines(name, result)), flush=True)
    lineup.close()


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of public evaluation sets")
    parser.add_argument("--limit", type=int, help="rows a part at most, and shorter gens")
    parser.add_argument("--parts", default="abcde", help="which of a, b, c, d, e")
    parser.add_argument("--peers", default=",".join(PEERS), help="any of them, or empty")
    parser.add_argument("--repetitions", type=int, help="timed ones of each part")
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--output", type=Path, default=default_path("engine_cpu"))
    args = parser.parse_args(argv)
    args.peers = [name for name in args.peers.split(",") if name]
    unknown = (set(args.peers) - set(PEERS)) | (set(args.parts) - set("abcde"))
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; peers are {', '.join(PEERS)}")
    return args


if __name__ == "__main__":
    main()
