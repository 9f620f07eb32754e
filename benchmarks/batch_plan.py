"""What planning a batch brings, and what it costs: the order of rows, and calls made once.

    python -m benchmarks.batch_plan

Programs run on the product's executor, scheduler, queue and tree in virtual time (see
`benchmarks.simulator`), with a KV pool of twice the longest request.

`order`: rows as they stand, in a plan that looks at prefixes alone, and in the plan of `sgc run`,
which starts rows with long chains of decodes first where prefixes leave a choice. `mmlu`: shuffled
questions of several subjects, each behind the examples of its subject. `lengths`: rows of a table,
of which some generate much longer than others.

`merge`: a table in which rows ask for the same summary of their document first; each call made, or
equal ones once.

`cost`: seconds of this machine that reading and planning 1,000 rows take, the fastest of three.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sgc
from benchmarks.common.conditions import conditions, use_threads
from benchmarks.common.results import ResultFile, default_path, result_path

if TYPE_CHECKING:
    from benchmarks.common.simulated_engine import SimulatedLoaded
    from benchmarks.common.simulated_jobs import SimulatedJob

POOL = 2  # times the longest request
PARALLEL = 32
ARMS = ("as they stand", "prefixes alone", "plan")
_ROOMY = 2_000_000  # KV slots of the run that finds the longest request
_WORDS = "river stone bridge cloud market winter letter garden engine harbour mirror candle".split()


@sgc.function
def lengths(s, table: str, cell: str, length: int):  # type: ignore[no-untyped-def]
    """A cell of a table, with an answer of a given length."""
    s += "Table of " + table + "\nCell: " + cell + "\nAbout it:"
    s += sgc.gen("about", max_tokens=length)


@sgc.function
def summary(s, document: str):  # type: ignore[no-untyped-def]
    """The summary of a document."""
    s += "Sum up.\n" + document + "\nSummary:"
    s += sgc.gen("summary", temperature=0, max_tokens=48)
    return s["summary"]


@sgc.function
def answers(s, document: str, question: str):  # type: ignore[no-untyped-def]
    """A question about the summary of a document."""
    known = summary(document)
    s += known["summary"] + "\nQuestion: " + question + "\nAnswer:"
    s += sgc.gen("answer", max_tokens=16)


def main(argv: list[str] | None = None) -> None:
    args = _arguments(argv)
    use_threads(1)
    from benchmarks.common.data import Data

    data = Data(args.data)
    jobs = jobs_of(data, args.limit)
    file = ResultFile(
        args.output,
        what=__doc__ or "",
        data=data.source,
        limit=args.limit,
        pool=POOL,
        parallel=PARALLEL,
        conditions=conditions(1),
    )
    for part, found in (
        ("order", {name: order(jobs[name]) for name in ("mmlu", "lengths")}),
        ("merge", merge(jobs["merge"])),
        ("cost", {name: cost(job) for name, job in jobs.items()}),
    ):
        file.add(part, found)
        print(part, found)


def jobs_of(data: Any, limit: int | None) -> dict[str, SimulatedJob]:
    """The programs with their rows."""
    from benchmarks.common.sgc_engine import Job
    from benchmarks.common.simulated_jobs import SimulatedJob, simulated_job

    rng = random.Random(7)

    def text(words: int) -> str:
        return " ".join(rng.choices(_WORDS, k=words))

    tables, documents = [text(150) for _ in range(8)], [text(300) for _ in range(12)]
    count = 400 if limit is None else 8 * limit
    cells = [
        {
            "table": rng.choice(tables),
            "cell": text(6),
            "length": rng.choice([8] * 9 + [200]),
        }
        for _ in range(count)
    ]
    questions = [
        {"document": rng.choice(documents), "question": text(8)} for _ in range(count // 2)
    ]
    return {
        "mmlu": simulated_job("mmlu", data, None, limit),
        "lengths": SimulatedJob(Job(lengths, cells)),
        "merge": SimulatedJob(Job(answers, questions)),
    }


def order(job: SimulatedJob) -> dict[str, Any]:
    """Prompt tokens computed and virtual seconds, in each order of the rows."""
    pool = POOL * serve(job, _ROOMY, "as they stand").core.longest
    found: dict[str, Any] = {}
    for arm in ARMS:
        loaded = serve(job, pool, arm)
        found[arm] = {
            "computed_tokens": loaded.runner.work.prompt_tokens,
            "makespan_s": round(loaded.runner.now, 2),
            "steps": loaded.runner.work.steps,
        }
    return found


def merge(job: SimulatedJob) -> dict[str, Any]:
    """The same run with each call made, and with equal ones once."""
    pool = POOL * serve(job, _ROOMY, "plan").core.longest
    found: dict[str, Any] = {}
    for arm, options in ("each call", {}), ("equal ones once", {"merge": True}):
        loaded = serve(job, pool, "plan", **options)
        found[arm] = {
            "calls": len(loaded.core.served),
            "computed_tokens": loaded.runner.work.prompt_tokens,
            "generated_tokens": loaded.runner.work.gen_tokens,
            "makespan_s": round(loaded.runner.now, 2),
        }
    return found


def serve(job: SimulatedJob, pool: int, arm: str, **options: Any) -> SimulatedLoaded:
    """The engine after a run of all rows in the order of `arm`."""
    from benchmarks.common.simulated_engine import drive
    from benchmarks.simulator import Policy, make_backend
    from sgc_runtime.executor.loop import run_sync

    backend = make_backend(job, "smollm2-135m", Policy(hints=True), pool)
    program, rows = job.job.program, job.job.rows
    run = program.job({"backend": backend, "mode": "compiled", **options})
    values = [program.arguments((), row) for row in rows]
    starts = [
        partial(run.row, index, values[index], shared_chars=shared)
        for index, shared in _order(job, values, arm)
    ]
    for state in run_sync(drive(backend, starts, PARALLEL)):
        if state.error() is not None:
            raise state.error()
    return backend.loaded


def _order(
    job: SimulatedJob, values: Sequence[Mapping[str, Any]], arm: str
) -> list[tuple[int, int]]:
    from sgc.planning import InPlanOrder

    if arm == "as they stand":
        return [(index, 0) for index in range(len(values))]
    reader = _reader(job)

    def facts(row: tuple[int, Mapping[str, Any]]) -> Any:
        known = reader.facts(*row)
        return known if arm == "plan" else replace(known, weight=0.0)

    planned = InPlanOrder(enumerate(values), facts, None, None, PARALLEL)
    return [(index, shared) for (index, _), shared in planned]


def _reader(job: SimulatedJob) -> Any:
    from sgc.planning import RowReader
    from sgc_ir.params import SamplingParams

    return RowReader(job.job.program.compile().graph, None, SamplingParams())


def cost(job: SimulatedJob) -> float:
    """Seconds for 1,000 rows."""
    values = [job.job.program.arguments((), row) for row in job.job.rows]
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        _order(job, values, "plan")
        best = min(best, time.perf_counter() - begin)
    return round(best / len(values) * 1000, 4)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of public evaluation sets")
    parser.add_argument("--limit", type=int, help="a smaller run")
    parser.add_argument("--output", type=result_path, default=default_path("batch_plan"))
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
