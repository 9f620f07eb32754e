"""A DSPy program over an sgc backend answers the rag suite: exact match, F1, programs a second.

    python -m benchmarks.dspy_rag [--data DIR] [--limit N] [--model M] [--threads N] [--output F]

The program is that of DSPy's introduction to retrieval: `ChainOfThought` over three passages and a
question. Passages and score are those of `sgc eval rag`; the fields bind the reply by a JSON
schema. Needs DSPy and bm25s: `pip install 'sgc[dspy,eval]'`.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy

from benchmarks.common.conditions import conditions, cores
from benchmarks.common.results import ResultFile, default_path, result_path
from sgc.eval.data import BUILTIN
from sgc.eval.registry import find_suite
from sgc.eval.suite import LoadOptions, Row
from sgc.integrations.dspy import SgcLM
from sgc_runtime.backends.engine_backend import engine_backend
from sgc_runtime.executor.backend import Backend

MAX_TOKENS = 192


class Answer(dspy.Signature):  # type: ignore[misc]  # DSPy is not typed
    """Answer questions with short facts, in as few words as possible."""

    passages: list[str] = dspy.InputField()
    question: str = dspy.InputField()
    answer: str = dspy.OutputField()


def answers(rows: Sequence[Row], backend: Backend, threads: int) -> list[str | None]:
    """The program's answer to each row, None where its call failed."""
    program = dspy.ChainOfThought(Answer)
    pairs = [
        (
            program,
            dspy.Example(
                passages=row.arguments["passages"], question=row.arguments["question"]
            ).with_inputs("passages", "question"),
        )
        for row in rows
    ]
    parallel = dspy.Parallel(
        num_threads=threads, max_errors=len(rows) + 1, disable_progress_bar=True
    )
    lm = SgcLM(backend, max_tokens=MAX_TOKENS)
    with dspy.context(lm=lm, adapter=dspy.JSONAdapter()):
        results = parallel(pairs)
    return [None if result is None else str(result.answer) for result in results]


def figures(rows: Sequence[Row], given: Sequence[str | None]) -> dict[str, float]:
    """Means over all rows; one that failed has no answer and scores nothing."""
    score = find_suite("rag").score
    assert score is not None
    scores = [score(row, {"value": text or ""}) for row, text in zip(rows, given, strict=True)]
    return {
        "rows": len(rows),
        "failed": sum(text is None for text in given),
        "exact_match": sum(s.value for s in scores if s) / len(rows),
        "f1": sum(s.detail["f1"] for s in scores if s) / len(rows),
    }


def measure(rows: Sequence[Row], backend: Backend, threads: int) -> dict[str, Any]:
    """The figures of one run, without the loading of the model."""
    answers(rows[:1], backend, 1)
    before = dict(backend.stats())
    begin = time.perf_counter()
    given = answers(rows, backend, threads)
    seconds = time.perf_counter() - begin
    counts = _counted(before, backend.stats())
    return {**figures(rows, given), "programs_per_s": len(rows) / seconds, **counts}


def _counted(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    names = ("prompt_tokens", "cached_tokens", "completion_tokens", "forced_tokens")
    return {name: after[name] - before[name] for name in names if name in after}


def main(argv: list[str] | None = None) -> None:
    args = _arguments(argv)
    warnings.simplefilter("ignore", DeprecationWarning)  # BaseLM's forward, until DSPy 3.5
    suite = find_suite("rag")
    folder = BUILTIN if args.data is None else args.data
    rows = suite.load(folder / suite.folder, LoadOptions(limit=args.limit))
    rows = [row for row in rows if not row.problem]
    backend = engine_backend(**({} if args.model is None else {"model": args.model}))
    try:
        result = measure(rows, backend, args.threads)
    finally:
        backend.close()
    for name, value in result.items():
        print(f"{name:18} {value:.4g}" if isinstance(value, float) else f"{name:18} {value}")
    if args.output is not None:
        facts = {"limit": args.limit, "threads": args.threads, "model": args.model}
        file = ResultFile(
            args.output,
            what="a DSPy program answers the rag suite on an sgc backend",
            conditions=conditions(cores()),
            **facts,
        )
        file.add("builtin" if args.data is None else "data", result)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder that holds rag/; default: builtin rows")
    parser.add_argument("--limit", type=int, default=None)
    parser.add_argument("--model", default=None)
    parser.add_argument("--threads", type=int, default=32)
    parser.add_argument("--output", type=result_path, default=default_path("dspy_rag"))
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
