"""Seconds of a prefill step by part: products by name, attention, norms, rotary turn, activation.

    python -m benchmarks.prefill_profile [--model M] [--weights auto] [--threads N]

Steps of the bare model over keys and values that lie there already, the least of some repetitions:

- `one`: one sequence's next 512 tokens behind 2,000.
- `questions`: 8 questions of 60 tokens behind one shared prefix of 270, as in few-shot MMLU.
- `endings`: 8 x 4 endings of 25 tokens, each group behind its own 60 tokens (computed with them),
  all behind a shared prefix of 1,000, as in few-shot HellaSwag; logits of every ending's token.
- `decode`: 32 sequences of 700 tokens each, one new token each, nothing shared.

`rest` is what no part holds: embedding, plan of attention, Python.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.common.conditions import conditions, cores, use_threads
from benchmarks.common.results import ResultFile, default_path, result_path

PRODUCTS = ("qkv", "out")
MLP_PRODUCTS = ("gate_up", "down")
OPERATIONS = ("rms_norm", "add_rms_norm", "silu_mul", "turn_and_store", "rotary_table")


@dataclass(frozen=True, slots=True)
class Shape:
    """Sequences of a step: `(prefix, own, new, logits)` each: tokens of the prefix that all share,
    cached ones of its own, new ones, and how many of these want logits."""

    sequences: Sequence[tuple[int, int, int, int]]


SHAPES = {
    "one": Shape([(0, 2000, 512, 1)]),
    "questions": Shape([(270, 0, 60, 1)] * 8),
    "endings": Shape(([(1000, 0, 60, 1)] + [(1000, 60, 25, 25)] * 4) * 8),
    "decode": Shape([(0, 700, 1, 1)] * 32),
}


def main() -> None:
    args = _arguments()
    use_threads(args.threads)
    head = {"what": (__doc__ or "").splitlines()[0], "weights": args.weights}
    file = ResultFile(args.output, **head, conditions=conditions(args.threads))
    from sgc_runtime.model.loader import load_model
    from sgc_runtime.models import resolve

    loaded = load_model(Path(resolve(args.model)), "bfloat16", weights=args.weights)
    for name in args.shapes:
        found = profile(loaded.model, SHAPES[name], args.repetitions)
        file.add(name, found)
        print(name, found, flush=True)


def profile(model: Any, shape: Shape, repetitions: int) -> dict[str, Any]:
    """Milliseconds by part of the fastest of some runs, and tokens a second."""
    batch, pool = _step(model, shape)
    best: dict[str, float] = {}
    for _ in range(repetitions + 1):  # the first warms up
        spent = _run(model, batch, pool)
        if not best or spent["total"] < best["total"]:
            best = spent
    tokens = len(batch.input_ids)
    rounded = {name: round(1e3 * seconds, 2) for name, seconds in best.items()}
    return {"tokens": tokens, "tokens_s": round(tokens / best["total"], 1), "ms": rounded}


def _run(model: Any, batch: Any, pool: Any) -> dict[str, float]:
    """Seconds by part of one forward. What is measured is put around the model's own members."""
    spent: dict[str, float] = {}
    weights, kernels = model.weights, model.kernels
    layers = [
        replace(
            _with_timed(layer, PRODUCTS, spent), mlp=_with_timed(layer.mlp, MLP_PRODUCTS, spent)
        )
        for layer in weights.layers
    ]
    model.weights = replace(weights, layers=layers, head=_timed("head", weights.head, spent))
    operations = {n: _timed(n, getattr(kernels, n), spent) for n in OPERATIONS}
    attention = _TimedAttention(kernels.attention, spent)
    model.kernels = replace(kernels, attention=attention, **operations)
    try:
        begin = time.perf_counter()
        model.forward(batch, pool)
        total = time.perf_counter() - begin
    finally:
        model.weights, model.kernels = weights, kernels
    return {**spent, "rest": total - sum(spent.values()), "total": total}


def _with_timed(holder: Any, names: Sequence[str], spent: dict[str, float]) -> Any:
    return replace(holder, **{n: _timed(n, getattr(holder, n), spent) for n in names})


def _timed(name: str, call: Callable[..., Any], spent: dict[str, float]) -> Callable[..., Any]:
    def timed(*args: Any) -> Any:
        begin = time.perf_counter()
        try:
            return call(*args)
        finally:
            spent[name] = spent.get(name, 0.0) + time.perf_counter() - begin

    return timed


class _TimedAttention:
    name = "timed"

    def __init__(self, inner: Any, spent: dict[str, float]) -> None:
        self._inner = inner
        self._spent = spent

    def plan(self, meta: Any, shape: Any) -> Any:
        plan = _timed("plan", self._inner.plan, self._spent)(meta, shape)
        return _TimedPlan(_timed("attention", plan.run, self._spent))


@dataclass(frozen=True, slots=True)
class _TimedPlan:
    run: Callable[..., Any]


def _step(model: Any, shape: Shape) -> tuple[Any, Any]:
    """A batch of random tokens, and a pool of random keys and values in shuffled slots."""
    import torch

    from sgc_runtime.cache.kv_pool import KVPool
    from sgc_runtime.model.forward import ForwardBatch

    torch.manual_seed(1)
    config = model.config
    shared = max(prefix for prefix, *_ in shape.sequences)
    count = shared + sum(own + new for _, own, new, _ in shape.sequences)
    pool = KVPool(
        config.num_layers,
        count,
        config.num_kv_heads,
        config.head_dim,
        model.dtype,
        torch.device("cpu"),
    )
    for cache in (*pool.k, *pool.v):
        cache.copy_(torch.randn(cache.shape).to(cache.dtype))
    free = torch.randperm(count)
    contexts, positions, rows, out, taken, row = [], [], [], [], shared, 0
    for prefix, own, new, logits in shape.sequences:
        mine = free[taken : taken + own + new]
        taken += own + new
        contexts.append(torch.cat([free[:prefix], mine]))
        positions.append(torch.arange(prefix + own, prefix + own + new))
        out.append(mine[own:])
        row += new
        rows.append(torch.arange(row - logits, row))
    batch = ForwardBatch(
        input_ids=torch.randint(1000, config.vocab_size, (row,)),
        positions=torch.cat(positions),
        out_slots=torch.cat(out),
        qo_indptr=_ends([new for _, _, new, _ in shape.sequences]),
        kv_indptr=_ends([len(context) for context in contexts]),
        kv_slots=torch.cat(contexts),
        logit_rows=torch.cat(rows),
    )
    return batch, pool


def _ends(lengths: Sequence[int]) -> Any:
    import torch

    return torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--weights", default="auto")
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--output", type=result_path, default=default_path("prefill_profile"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
