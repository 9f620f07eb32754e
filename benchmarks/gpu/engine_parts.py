"""The parts of `gpu_engine`: what the engine reaches of what the hardware can do."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.gpu.prompts import Ids, Prompts
from benchmarks.gpu.rates import GpuCeilings
from benchmarks.gpu.sgc_ids import SgcIds
from benchmarks.gpu.shapes import ModelShape, causal_pairs
from benchmarks.gpu.trace import heaviest, idle_shares, record, time_of

_ATTENTION = ("attend_wide", "attend_narrow", "merge_partials")  # kernels of decode attention
GOALS = {"decode 1": 0.88, "decode 64": 0.75, "prefill": 0.65}  # of what the ceilings allow
MOST_IDLE = 0.03  # of the GPU's time in steady decode
SHARED_FLOORS = 2.0  # decode attention behind a shared prefix: times the floor of unique bytes


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much work a part is; `SMALL` is for tests on a CPU."""

    prompt: int = 128  # of batch 1
    new: int = 512
    rows: int = 64
    context: int = 2048  # in the middle of the steps that are timed
    steps: int = 128
    prefill: int = 2048
    prefill_rows: int = 16
    shared_rows: int = 256
    shared: int = 1504
    own: int = 112
    repetitions: int = 3
    window_s: float = 0.4


FULL = Sizes()
SMALL = Sizes(16, 8, 4, 64, 8, 32, 2, 6, 40, 12, 1, 0.05)


@dataclass(slots=True)
class Bench:
    """What every part needs."""

    engine: SgcIds
    shape: ModelShape
    ceilings: GpuCeilings
    sizes: Sizes
    on_gpu: bool
    seed: int = 0

    def prompts(self, rows: int, shared: int, own: int) -> list[Ids]:
        """New ones each time."""
        self.seed += 1
        return Prompts(self.engine.vocab_size, self.seed).rows(rows, shared, own)

    def seconds(self, prompts: list[Ids], new: int) -> float:
        begin = time.perf_counter()
        self.engine.batch(prompts, new)
        return time.perf_counter() - begin

    def decode_step_s(self, prompts: list[Ids], steps: int) -> float:
        """Seconds of a step in which every row gets a token, prompts cached; the median."""
        self.seconds(prompts, 1 + steps)  # fills the cache, records graphs
        first = min(self.seconds(prompts, 1) for _ in range(self.sizes.repetitions))
        whole = [self.seconds(prompts, 1 + steps) for _ in range(self.sizes.repetitions)]
        return (statistics.median(whole) - first) / steps


def load(bench: Bench) -> dict[str, Any]:
    """Seconds from the folder to an engine that takes calls."""
    num_bytes = bench.shape.step_bytes(bench.engine.vocab_size)
    loaded = bench.engine.load_s
    return {"seconds": round(loaded, 2), "gb_s": round(num_bytes / loaded / 1e9, 2)}


def decode_one(bench: Bench) -> dict[str, Any]:
    """Batch 1."""
    sizes = bench.sizes
    step = bench.decode_step_s(bench.prompts(1, 0, sizes.prompt), sizes.new)
    weights = bench.shape.step_bytes(bench.engine.vocab_size)
    found = {"context": [sizes.prompt, sizes.prompt + sizes.new], "tokens_s": round(1 / step, 1)}
    found |= _reached("decode 1", bench.ceilings.bytes_s(weights), step)
    prompts = bench.prompts(1, 0, sizes.prompt)
    return found | _watched(bench, prompts, 2 * sizes.new)


def decode_many(bench: Bench) -> dict[str, Any]:
    """Rows that share nothing, with long contexts."""
    sizes, shape = bench.sizes, bench.shape
    prompts = bench.prompts(sizes.rows, 0, sizes.context - sizes.steps // 2)
    step = bench.decode_step_s(prompts, sizes.steps)
    weights = shape.step_bytes(bench.engine.vocab_size)
    keys = sizes.rows * sizes.context * shape.kv_bytes
    found: dict[str, Any] = {"rows": sizes.rows, "context": sizes.context}
    found |= {"tokens_s": round(sizes.rows / step, 1), "kv_gb": round(keys / 1e9, 3)}
    found |= _reached("decode 64", bench.ceilings.bytes_s(weights + keys), step)
    return found | _watched(bench, prompts, 3 * sizes.steps)


def decode_shared(bench: Bench) -> dict[str, Any]:
    """Rows that share a long prefix: its keys and values are read once a step."""
    sizes, shape = bench.sizes, bench.shape
    steps = max(2, sizes.own // 2)
    prompts = bench.prompts(sizes.shared_rows, sizes.shared, sizes.own - steps // 2)
    step = bench.decode_step_s(prompts, steps)
    unique = sizes.shared + sizes.shared_rows * sizes.own
    keys = unique * shape.kv_bytes
    weights = shape.step_bytes(bench.engine.vocab_size)
    floor_s = bench.ceilings.bytes_s(weights + keys)
    found = {
        "rows": sizes.shared_rows,
        "shared": sizes.shared,
        "own": sizes.own,
        "step_ms": round(1e3 * step, 4),
        "floor_ms": round(1e3 * floor_s, 4),
        "tokens_s": round(sizes.shared_rows / step, 1),
    }
    watched = _watched(bench, prompts, steps)
    floor_us = 1e6 * bench.ceilings.bytes_s(keys / shape.layers)
    attention = watched.get("attention_us_a_layer")
    if attention is not None:
        times = attention / floor_us
        watched["attention"] = {
            "us_a_layer": attention,
            "floor_us": round(floor_us, 1),
            "times_floor": round(times, 2),
            "goal": SHARED_FLOORS,
            "met": times <= SHARED_FLOORS,
        }
    watched.pop("idle", None)  # a run this short is not steady
    return found | watched


def prefill(bench: Bench) -> dict[str, Any]:
    """Prompts that share nothing, one token each."""
    sizes, shape, vocab = bench.sizes, bench.shape, bench.engine.vocab_size
    rows, length = sizes.prefill_rows, sizes.prefill
    times = []
    for _ in range(1 + sizes.repetitions):  # the first is the warm-up
        times.append(bench.seconds(bench.prompts(rows, 0, length), 1))
    seconds = statistics.median(times[1:])
    products = shape.product_operations(rows * length, rows, vocab)
    attention = shape.attention_operations(rows * causal_pairs(length))
    floor_s = bench.ceilings.operations_s(products + attention)
    found: dict[str, Any] = {"rows": rows, "tokens": length}
    found["tokens_s"] = round(rows * length / seconds)
    found["seconds"] = [round(value, 4) for value in times]
    found["share_without_attention"] = round(bench.ceilings.operations_s(products) / seconds, 4)
    return found | _reached("prefill", floor_s, seconds)


PARTS: dict[str, Callable[[Bench], dict[str, Any]]] = {
    "load": load,
    "decode 1": decode_one,
    "decode 64": decode_many,
    "prefill": prefill,
    "decode shared": decode_shared,
}


def _reached(part: str, floor_s: float, seconds: float) -> dict[str, Any]:
    share = floor_s / seconds
    return {
        "ms": round(1e3 * seconds, 4),
        "floor_ms": round(1e3 * floor_s, 4),
        "share": round(share, 4),
        "goal": GOALS[part],
        "met": share >= GOALS[part],
    }


def _watched(bench: Bench, prompts: list[Ids], steps: int) -> dict[str, Any]:
    """Kernels and idle time in the middle of a decode of `prompts` that are cached."""
    if not bench.on_gpu:
        return {}
    bench.seconds(prompts, 1)
    run = threading.Thread(target=bench.seconds, args=(prompts, 1 + steps))
    before = bench.engine.decode_steps
    run.start()
    while run.is_alive() and bench.engine.decode_steps < before + 8:
        time.sleep(0.002)
    runs = record(bench.sizes.window_s)
    over = not run.is_alive()  # then the window holds time in which there was nothing to do
    run.join()
    if not runs:
        return {"trace": "empty"}
    shares = idle_shares(runs)
    found: dict[str, Any] = {
        "idle": {
            "share": round(shares["waiting"], 4),
            "share_with_gaps_between_kernels": round(shares["all"], 4),
            "goal": MOST_IDLE,
            "met": shares["waiting"] < MOST_IDLE,
            "window_ms": round(1e-3 * (runs[-1].end - runs[0].begin), 2),
        },
        "kernels": heaviest(runs),
    }
    attention = time_of(runs, _ATTENTION, "merge_partials")
    if attention is not None:
        found["attention_us_a_layer"] = round(attention, 2)
    if over:
        found["idle"]["note"] = "the run ended within the window"
    return found
