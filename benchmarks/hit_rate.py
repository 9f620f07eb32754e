"""How close the hit rate comes to the best possible one under little memory, for each order.

    python -m benchmarks.hit_rate --data DIR

The rows of a workload run in shuffled order, as many at a time as `sgc run` does by default; the
KV pool holds four times the longest request. Where no prompt holds generated text and every gen
has a fixed length (MMLU, agent calls, RAG), the model computes nothing and takes the time of a
real one, so that rows come while it is busy; tree of thought runs on the real one.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common.conditions import conditions, cores, use_threads
from benchmarks.common.results import ResultFile, default_path, result_path

if TYPE_CHECKING:  # brings in torch, whose threads are set first
    from benchmarks.common.data import Data
    from benchmarks.common.sgc_engine import Job

GOAL = 0.97  # of the best possible rate
POOL = 4  # longest requests
ORDERS = ("lpm", "dfs", "fcfs")  # the first one, the default, is judged
PARTS = ("mmlu", "agents", "rag", "tree")
_WITHOUT_GOAL = ("tree",)  # reported; its order needs what the compiler knows
PARALLEL = 256  # the default of `sgc run`
_TIMED = "computes nothing, takes 4 ms a step and 0.6 ms a token"
_COUNTERS = ("recomputed_tokens", "retractions", "peak_running", "peak_kv_tokens")


def main(argv: list[str] | None = None) -> None:
    args = _arguments(argv)
    use_threads(args.threads)
    from benchmarks.common.data import Data

    data = Data(args.data)
    file = ResultFile(
        args.output,
        what=__doc__,
        data=data.source,
        limit=args.limit,
        conditions=conditions(args.threads),
    )
    for part in args.parts:
        result = measure(part, data, args.limit, args.model)
        file.add(part, result)
        print("\n".join(_lines(part, result)), flush=True)


def measure(part: str, data: Data, limit: int | None, model: str) -> dict[str, Any]:
    """Hit rates of one workload, order by order."""
    job = make_job(part, data, limit)
    silent = part != "tree"
    longest = _run(job, model, silent, kv_tokens=60_000)["longest"]
    found: dict[str, Any] = {
        "rows": len(job.rows),
        "model": _TIMED if silent else model,
        "parallel": PARALLEL,
        "longest_request": longest,
        "kv_tokens": POOL * longest,
        "orders": {},
    }
    for order in ORDERS:
        found["orders"][order] = _run(job, model, silent, kv_tokens=POOL * longest, order=order)
    if part not in _WITHOUT_GOAL:
        found["goal"] = GOAL
        found["met"] = found["orders"][ORDERS[0]]["share_of_optimal"] >= GOAL
    return found


def make_job(part: str, data: Data, limit: int | None) -> Job:
    """The rows of a workload, shuffled."""
    from benchmarks.common.sgc_engine import Job
    from benchmarks.common.workloads import agent, tree_of_thought

    if part == "mmlu":
        return _mmlu(data, limit)
    if part == "rag":
        return _rag(data, limit)
    if part == "agents":
        calls = data.agent_calls(400 if limit is None else 4 * limit)
        return Job(agent, _shuffled([{"prompt": c.prompt, "length": c.max_tokens} for c in calls]))
    problems = data.gsm8k(8 if limit is None else limit)
    return Job(tree_of_thought, _shuffled([{"question": text} for text in problems]))


def _mmlu(data: Data, limit: int | None) -> Job:
    from benchmarks.common.parts import solved
    from benchmarks.common.sgc_engine import Job
    from benchmarks.common.workloads import answer_letter

    rows = []
    for subject in data.subjects(10 if limit is None else limit):
        examples, questions = data.mmlu(subject, 30 if limit is None else 3 * limit)
        head = f"Questions about {subject.replace('_', ' ')}.\n\n" + solved(examples)
        rows += [{"examples": head, "question": q.ask()} for q in questions]
    return Job(answer_letter, _shuffled(rows))


def _rag(data: Data, limit: int | None) -> Job:
    from benchmarks.common.sgc_engine import Job
    from benchmarks.common.workloads import from_passages

    texts, asked = data.rag(300 if limit is None else 4 * limit)
    rows = [
        {"passages": [texts[i].text for i in found], "question": question}
        for question, found in asked
    ]
    return Job(from_passages, _shuffled(rows))


def _shuffled(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    random.Random(0).shuffle(rows)
    return rows


def _run(job: Job, model: str, silent: bool, **options: Any) -> dict[str, Any]:
    """Rates and counters of one run on a fresh engine."""
    from benchmarks.common.bare_engine import SilentModel, step_seconds
    from benchmarks.common.recording import RecordingBackend, as_backend
    from benchmarks.common.sgc_engine import SgcEngine, run_job

    engine = SgcEngine(model, **options)
    if silent:
        runner: Any = engine.loaded.engine.core.runner  # the one of a CPU, which has a model
        runner.model = SilentModel(engine.loaded.vocab_size, step_seconds)
    recorder = RecordingBackend(engine.backend)
    run_job(job, as_backend(recorder), PARALLEL)
    stats = engine.backend.stats()
    engine.backend.close()
    rate, best = stats["hit_rate"], stats["optimal_hit_rate"]
    return {
        "hit_rate": round(rate, 4),
        "optimal_hit_rate": round(best, 4),
        "share_of_optimal": round(rate / best, 4) if best else 1.0,
        "longest": max(len(c.prompt) + c.num_new for c in recorder.calls),
        "calls": len(recorder.calls),
        **{name: stats[name] for name in _COUNTERS},
    }


def _lines(part: str, result: dict[str, Any]) -> list[str]:
    out = [
        f"{part}: {result['rows']} rows, pool {result['kv_tokens']} tokens = {POOL} x longest "
        f"request, model: {result['model']}"
    ]
    for order, found in result["orders"].items():
        out.append(
            f"  {order:5} hit rate {found['hit_rate']:.4f} of {found['optimal_hit_rate']:.4f} = "
            f"{100 * found['share_of_optimal']:.2f} %"
        )
    if "goal" in result:
        out.append(f"  goal {100 * GOAL:.0f} %: {'met' if result['met'] else 'MISSED'}")
    return out


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of public evaluation sets")
    parser.add_argument("--limit", type=int, help="a smaller run")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--output", type=result_path, default=default_path("hit_rate"))
    args = parser.parse_args(argv)
    args.parts = args.parts.split(",")
    if unknown := set(args.parts) - set(PARTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; parts are {', '.join(PARTS)}")
    return args


if __name__ == "__main__":
    main()
