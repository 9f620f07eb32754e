"""What a decode step of the engine costs beside the model's forward.

    python -m benchmarks.engine_overhead

Steps of `EngineCore` over a model that gives logits of 49,152 ids at once; the time inside its
`forward` is taken off. `greedy`, and `sampled` (temperature 1.0, top-p 0.9); with and without stop
strings; with 1 to 128 rows, each with a context of `context` tokens and, for the growth with the
context, of `long_context`. Each figure is the median of the steps of one round, of the round where
it is least: what else ran only adds time (`rounds_ms` has all).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.common.conditions import conditions, use_threads
from benchmarks.common.results import ResultFile, default_path, result_path

if TYPE_CHECKING:  # brings in torch, whose threads are set first
    from sgc_runtime.engine.core import EngineCore

VOCAB = 49_152  # of SmolLM2
ROWS = (1, 8, 32, 128)
CONTEXT, LONG_CONTEXT = 64, 2048
GOALS_MS = {1: 0.15, 32: 1.0}  # greedy, without stops
WARMUP = 20
ROUNDS = 3
STOPS = ("\n\nQ:", "</answer>", "Human:")


def main(argv: list[str] | None = None) -> None:
    args = _arguments(argv)
    use_threads(args.threads)
    file = ResultFile(args.output, what=__doc__, conditions=conditions(args.threads))
    for kind in ("greedy", "sampled"):
        for stops in ((), STOPS):
            name = kind + (" with stops" if stops else "")
            found = {str(n): _steps(n, kind, stops, CONTEXT, args.steps) for n in args.rows}
            if kind == "greedy" and not stops:
                _judge(found)
            file.add(name, found)
            _say(name, found)
    long = {str(n): _steps(n, "greedy", (), LONG_CONTEXT, args.steps) for n in args.rows}
    file.add("greedy long context", long)
    _say("greedy long context", long)


def _judge(found: dict[str, Any]) -> None:
    for rows, goal in GOALS_MS.items():
        if str(rows) in found:
            figures = found[str(rows)]
            figures |= {"goal_ms": goal, "met": figures["median_ms"] < goal}


def _say(name: str, found: dict[str, Any]) -> None:
    figures = ", ".join(f"{n} rows {f['median_ms']:.3f} ms" for n, f in found.items())
    print(f"{name}: {figures}", flush=True)


def _steps(rows: int, kind: str, stops: Sequence[str], context: int, steps: int) -> dict[str, Any]:
    """A step of `rows` rows that all decode, beside the forward."""
    rounds = [_round(rows, kind, stops, context, steps) for _ in range(ROUNDS)]
    times = min(rounds, key=statistics.median)
    return {
        "median_ms": statistics.median(times),
        "p95_ms": statistics.quantiles(times, n=20)[-1],
        "rounds_ms": [round(statistics.median(found), 4) for found in rounds],
        "context": context,
        "steps": steps,
    }


def _round(rows: int, kind: str, stops: Sequence[str], context: int, steps: int) -> list[float]:
    """Milliseconds of each step."""
    core, model = _decoding(rows, kind, stops, context, steps)
    times = []
    for _ in range(steps):
        model.seconds = 0.0
        begin = time.perf_counter()
        core.step()
        times.append(1e3 * (time.perf_counter() - begin - model.seconds))
    assert len(core.scheduler.running) == rows, "a row has ended"
    return times


def _decoding(
    rows: int, kind: str, stops: Sequence[str], context: int, steps: int
) -> tuple[EngineCore, Any]:
    """A core in which all rows decode, warmed up, and its model."""
    import torch

    from sgc_runtime.cache.kv_pool import KVPool
    from sgc_runtime.engine.config import EngineConfig
    from sgc_runtime.engine.core import EngineCore
    from sgc_runtime.engine.host_runner import HostRunner

    # The prompts are computed in one step, and nothing of them is shared.
    slots = rows * (context + steps + WARMUP + 8)
    config = EngineConfig(kv_tokens=slots, max_running=rows, prefill_tokens=rows * context)
    model = _model(rows)
    kv = KVPool(1, slots, 1, 1, torch.float32, torch.device("cpu"))
    core = EngineCore(HostRunner(model, kv), config)
    core.add(*(_request(i, kind, stops, context, steps + WARMUP + 4) for i in range(rows)))
    for _ in range(WARMUP):
        core.step()
    assert len(core.scheduler.running) == rows, "not all rows decode"
    return core, model


def _model(rows: int) -> Any:
    """A model whose logits are ready; `seconds` is the time spent in `forward`."""
    import torch

    class ReadyModel:
        def __init__(self) -> None:
            made = torch.Generator().manual_seed(1)
            self._logits = 2.0 * torch.randn(rows, VOCAB, generator=made)
            self.seconds = 0.0

        def forward(self, batch: Any, kv: Any) -> torch.Tensor:
            begin = time.perf_counter()
            logits = self._logits[: len(batch.logit_rows)].clone()  # the sampler uses them up
            self.seconds += time.perf_counter() - begin
            return logits

    return ReadyModel()


class _Words:
    """All that a watcher asks of a vocabulary."""

    def token_bytes(self, token_id: int) -> bytes:
        return b" word"


def _request(number: int, kind: str, stops: Sequence[str], context: int, max_tokens: int) -> Any:
    from typing import cast

    import numpy as np

    from sgc_ir.params import SamplingParams
    from sgc_runtime.engine.output import OutputWatcher
    from sgc_runtime.engine.request import Request
    from sgc_runtime.engine.vocabulary import Vocabulary
    from sgc_runtime.sampling.row import SamplingRow

    params = SamplingParams(
        temperature=0.0 if kind == "greedy" else 1.0,
        top_p=1.0 if kind == "greedy" else 0.9,
        max_tokens=max_tokens,
        stop=tuple(stops),
        ignore_eos=True,
    )
    ids = np.full(context, number, np.int32)
    return Request(
        ids,
        on_done=lambda request, outcome: None,
        row=SamplingRow(params, number, ids),
        watcher=OutputWatcher(params, cast(Vocabulary, _Words()), ()),
        call_prompt=context,
    )


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=lambda s: [int(x) for x in s.split(",")], default=ROWS)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=result_path, default=default_path("engine_overhead"))
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
