"""The simulator's policies on the real engine, for the same order of arms."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from sgc.runnable import Runnable
from sgc_runtime.backends.local import LocalBackend

if TYPE_CHECKING:
    from benchmarks.common.sgc_engine import Job
    from benchmarks.simulator import Policy


def run_on_model(job: Job, model: str, policy: Policy, pool: int, parallel: int) -> dict[str, Any]:
    """Counters of one run on the CPU, from an empty cache; gens use all their tokens.

    Raises the first row's error.
    """
    backend = LocalBackend(model, kv_tokens=pool, hints=policy.hints, **policy.engine)
    backend.load()
    begin = time.perf_counter()
    runnable: Runnable = job.program
    states = runnable.run_batch(
        list(job.rows),
        backend=backend,
        mode="compiled",
        parallel=parallel,
        options={"ignore_eos": True, "plan": policy.plan, "hints": policy.hints},
    )
    seconds = time.perf_counter() - begin
    core = asyncio.run(backend.engine()).engine.core
    stats = core.metrics.to_dict()
    best = core.trie.optimal_hit_rate()
    backend.close()
    for error in filter(None, (state.error() for state in states)):
        raise error
    return _figures(stats, best, seconds)


def _figures(stats: dict[str, int], best: float | None, seconds: float) -> dict[str, Any]:
    asked = stats["prompt_tokens"]
    computed = asked - stats["cached_tokens"] + stats["recomputed_tokens"]
    optimum = round((1.0 - (best or 0.0)) * asked)
    return {
        "prompt_tokens": asked,
        "computed_tokens": computed,
        "optimum": optimum,
        "over_optimum": round(computed / optimum - 1.0, 4),
        "retractions": stats["retractions"],
        "recomputed_tokens": stats["recomputed_tokens"],
        "peak_running": stats["peak_running"],
        "seconds": round(seconds, 2),
    }
