"""Two cores of one engine, with and without the cache, that take the same steps in turn.

A step of one is timed right beside the same step of the other, so a slow second of the machine
hits both, and what hits one alone is outvoted by the other repetitions of that step.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np
import torch

from benchmarks.common.bare_engine import SilentModel
from benchmarks.common.sgc_engine import SgcEngine
from sgc_ir.params import SamplingParams
from sgc_runtime.cache.kv_pool import KVPool
from sgc_runtime.engine.config import EngineConfig
from sgc_runtime.engine.core import EngineCore
from sgc_runtime.engine.host_runner import HostRunner, Model
from sgc_runtime.engine.output import OutputWatcher
from sgc_runtime.engine.request import Outcome, Request
from sgc_runtime.model.forward import KVTensors
from sgc_runtime.sampling.row import SamplingRow

Steps = list[tuple[float, float]]  # seconds of each step, with the cache and without
_RESAMPLED = 2_000


class Lockstep:
    """The same gens on both cores, all at once; each prompt begins with a token of its own, so
    that nothing is shared and both compute the same batches.

    Args:
        engine: whose model computes; its own thread must be idle.
        prompts: ids.
        length: tokens of each gen.
        silent: with a model that computes nothing instead, so that only the rest of a step is
            timed, and hardly any noise.
    """

    def __init__(
        self,
        engine: SgcEngine,
        prompts: Sequence[Sequence[int]],
        length: int,
        silent: bool = False,
    ) -> None:
        self._loaded, self._length = engine.loaded, length
        self._prompts = [[1_000 + i, *ids[1:]] for i, ids in enumerate(prompts)]
        core = engine.loaded.engine.core
        self._slots = slots = core.cache.num_slots
        self._model: Model = SilentModel(self._loaded.vocab_size)
        shape, dtype = (1, slots, 1, 1), torch.float32
        if not silent:
            assert isinstance(core.runner, HostRunner), "steps on a CPU"
            self._model, keys = core.runner.model, core.runner.kv.k
            _, heads, dim = keys[0].shape
            shape, dtype = (len(keys), slots, heads, dim), keys[0].dtype
        self._pools = [KVPool(*shape, dtype, torch.device("cpu")) for _ in range(2)]

    def run(self) -> Steps:
        """One repetition, from empty caches."""
        cores = [self._core(pool, cache) for pool, cache in zip(self._pools, (1, 0), strict=True)]
        found: Steps = []
        while not all(core.scheduler.idle for core in cores):
            seconds = [0.0, 0.0]
            for which in (0, 1) if len(found) % 2 else (1, 0):
                begin = perf_counter()
                cores[which].step()
                seconds[which] = perf_counter() - begin
            found.append((seconds[0], seconds[1]))
        return found

    def _core(self, kv: KVTensors, cache: int) -> EngineCore:
        config = EngineConfig(kv_tokens=self._slots, cache=bool(cache))
        core = EngineCore(HostRunner(self._model, kv), config)
        core.add(*(self._request(ids, i) for i, ids in enumerate(self._prompts)))
        return core

    def _request(self, prompt: Sequence[int], instance: int) -> Request:
        params = SamplingParams(temperature=0.0, max_tokens=self._length, ignore_eos=True)
        watcher = OutputWatcher(params, self._loaded.vocabulary, ())
        ids = np.array(prompt, np.int32)
        return Request(
            ids,
            on_done=_ignore,
            row=SamplingRow(params, 0, ids, watcher.held_back()),
            watcher=watcher,
            call_prompt=len(ids),
            instance=instance,
            more_tokens=0,
        )


def seconds_without(runs: Sequence[Steps]) -> float:
    """Of one run without the cache: the medians of all its steps."""
    steps: list[Steps] = [list(step) for step in zip(*runs, strict=True)]
    return sum(statistics.median(b for _, b in step) for step in steps)


def added_share(runs: Sequence[Steps], run_s: float) -> dict[str, Any]:
    """What the cache adds to a run of `run_s` seconds: for each step the median difference of all
    repetitions, summed over the steps; with the 95 % interval of a bootstrap over repetitions."""
    rng = random.Random(0)
    resampled = sorted(_added(rng.choices(runs, k=len(runs))) for _ in range(_RESAMPLED))
    return {
        "share": _added(runs) / run_s,
        "low": resampled[_RESAMPLED // 40] / run_s,
        "high": resampled[-_RESAMPLED // 40] / run_s,
        "added_ms": 1e3 * _added(runs),
        "steps": len(runs[0]),
        "repetitions": len(runs),
    }


def _added(runs: Sequence[Steps]) -> float:
    steps: list[Steps] = [list(step) for step in zip(*runs, strict=True)]
    return sum(statistics.median(a - b for a, b in step) for step in steps)


def _ignore(request: Request, outcome: Outcome) -> None:
    """Nobody waits."""
