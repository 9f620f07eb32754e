"""The local engine in virtual time, below the real executor.

Programs run as they always do: compiled graph, executor, token streams, scheduler, queue, tree and
hints are the engine's own, nothing of them is copied. Only the model is missing: what a step takes
is a formula, and what a gen says comes out of a script. Everything happens on one event loop, so
that a run is exact and repeatable.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from benchmarks.common.causes import CauseFinder
from benchmarks.common.simulated_runner import Script, SimulatedRunner, StepCost
from sgc_runtime.backends.local import LocalBackend
from sgc_runtime.cache.radix_tree import Ids
from sgc_runtime.constraints.compiler import ConstraintCompiler
from sgc_runtime.engine.assemble import LoadedEngine
from sgc_runtime.engine.config import EngineConfig
from sgc_runtime.engine.core import EngineCore
from sgc_runtime.engine.prefill_ahead import AheadJob
from sgc_runtime.engine.regions import TokenChars
from sgc_runtime.engine.request import Request
from sgc_runtime.engine.seams import Seams
from sgc_runtime.engine.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class ServedCall:
    """A call in the order in which calls began.

    Attributes:
        prompt: ids.
        made: prompt and what decode or scoring put behind it, as far as its KV was computed.
        waited: prompt tokens that were computed for others between its arrival and its begin.
        older: requests that waited when it came.
    """

    prompt: Ids
    made: Ids
    waited: int = 0
    older: int = 0


class TracedCore(EngineCore):
    """An `EngineCore` that notes which calls it has served.

    Attributes:
        served: calls that gave a result, by their begin.
        longest: slots that the largest request may need.
        finder: why prompt tokens were computed more than once.
    """

    def __init__(self, runner: SimulatedRunner, config: EngineConfig) -> None:
        super().__init__(runner, config)
        self.finder = CauseFinder(self.cache.tree)
        runner.watch = self.finder.see
        self.served: list[ServedCall] = []
        self.longest = 0
        self._places: dict[Request, int] = {}
        self._came: dict[Request, tuple[int, int]] = {}  # the clock then, and how many waited

    def _queue(self, requests: Sequence[Request]) -> None:
        clock, older = self.scheduler.admission.turns.clock, len(self.scheduler.waiting)
        for number, request in enumerate(requests):
            self._came[request] = clock, older + number
        super()._queue(requests)

    def _count_prompt(self, request: Request) -> None:
        super()._count_prompt(request)
        if request.call_prompt:
            prompt = request.tokens[: request.call_prompt].copy()
            self._places[request] = len(self.served)
            since, older = self._came.pop(request)
            waited = self.scheduler.admission.turns.clock - since
            self.served.append(ServedCall(prompt, prompt, waited, older))
        self.longest = max(self.longest, request.num_target + request.num_growth)

    def _end(self, request: Request, num_kept: int, complete: bool = True) -> None:
        place = self._places.pop(request, None)
        if place is not None:
            call = self.served[place]
            made = request.tokens[: max(num_kept, len(call.prompt))].copy()
            self.served[place] = replace(call, made=made)
            self.finder.made(made, request.instance)
        super()._end(request, num_kept, complete)


class SimulatedEngine:
    """What `engine.Engine` is to calls, without a thread: `step` is called from outside.

    What a step gives reaches its program when the next step has begun, as beside a real model.
    """

    def __init__(self, core: EngineCore) -> None:
        self.core = core
        self.is_busy = False
        self._mail: deque[partial[None]] = deque()

    def submit(
        self, requests: Sequence[Request], loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        self.core.add(*requests)

    def cancel(self, requests: Sequence[Request]) -> None:
        for request in requests:
            self.core.cancel(request)

    def compute_ahead(self, job: AheadJob) -> None:
        self.core.compute_ahead(job)

    def post(
        self, loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *args: Any
    ) -> None:
        self._mail.append(partial(callback, *args))

    def step(self) -> bool:
        """One step, then the results of the one before; False when there was nothing to do."""
        before, self._mail = self._mail, deque()
        self.is_busy = self.core.step()
        for letter in before:
            letter()
        if self.core.rests:
            while self._mail:
                self._mail.popleft()()
        return self.is_busy or bool(before)

    def close(self) -> None:
        self.core.close()


class SimulatedLoaded(LoadedEngine):
    """What calls need to know of an engine that has no model."""

    def __init__(
        self, vocabulary: Vocabulary, script: Script, cost: StepCost, settings: EngineConfig
    ) -> None:
        self.vocabulary, self.vocab_size = vocabulary, vocabulary.vocab_size
        self.runner = SimulatedRunner(script, self.vocab_size, cost)
        self.core = TracedCore(self.runner, settings)
        self.simulated = engine = SimulatedEngine(self.core)
        self.engine = engine  # type: ignore[assignment]  # what calls use of it is there
        self.budgets = None  # type: ignore[assignment]
        self.profile = None
        self.jump, self.token_chars = settings.jump, TokenChars(vocabulary)
        self.constraints = ConstraintCompiler(self._constraint_tools)
        self.token_chars = TokenChars(vocabulary)
        self.warned: set[str] = set()
        self.max_positions = 1 << 30
        self.seams = Seams(vocabulary, "canonical")
        self.eos_ids = frozenset(vocabulary.eos_ids)
        self.end_of_turn_ids = self.eos_ids | frozenset(vocabulary.end_of_turn_ids)
        self.unconditional: dict[tuple[int, ...], tuple[float, ...]] = {}


class SimulatedBackend(LocalBackend):
    """A `LocalBackend` over a `SimulatedLoaded`.

    Args:
        vocabulary: the tokenizer, with a chat template.
        script, cost: see `SimulatedRunner`.
        settings: of the scheduler.
    """

    def __init__(
        self, vocabulary: Vocabulary, script: Script, cost: StepCost, settings: EngineConfig
    ) -> None:
        super().__init__("virtual")
        self._tokenizer = vocabulary  # type: ignore[assignment]  # all that is used of it is there
        self.loaded = SimulatedLoaded(vocabulary, script, cost, settings)
        self._seams = self.loaded.seams
        self._loading = Future()
        self._loading.set_result(self.loaded)

    def stats(self) -> dict[str, Any]:
        """Counters under the names of `--stats`."""
        core = self.loaded.core
        counters = core.metrics.to_dict()
        asked = counters["prompt_tokens"]
        best = core.trie.optimal_hit_rate()
        rate = counters["cached_tokens"] / asked if asked else None
        return {**counters, "hit_rate": rate, "optimal_hit_rate": best, "load_seconds": 0.0}


def drive(backend: SimulatedBackend, rows: Sequence[Any], parallel: int) -> Any:
    """A coroutine that runs `rows` (coroutine functions without arguments, in this order), so many
    at a time, to be awaited on the runtime's loop; gives their results in order.

    Raises whatever a row raises, and AssertionError when all wait for something that never comes.
    """
    return _Drive(backend.loaded.simulated, rows, parallel).run()


class _Drive:
    def __init__(self, engine: SimulatedEngine, rows: Sequence[Any], parallel: int) -> None:
        self._engine, self._rows, self._parallel = engine, rows, parallel
        self._left = iter(enumerate(rows))
        self._results: list[Any] = [None] * len(rows)
        self._running: set[asyncio.Task[None]] = set()
        self._error: BaseException | None = None

    async def run(self) -> list[Any]:
        for _ in range(self._parallel):
            self._start()
        try:
            while self._running:
                await self._settle()
                if self._error is not None:
                    raise self._error
                if self._running and not self._engine.step():
                    await asyncio.sleep(0.0005)  # a tool's thread, for instance
        finally:
            for task in self._running:
                task.cancel()
        return self._results

    def _start(self) -> None:
        index, row = next(self._left, (0, None))
        if row is not None:
            task = asyncio.ensure_future(self._run_row(index, row))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _run_row(self, index: int, row: Any) -> None:
        try:
            self._results[index] = await row()
        except BaseException as error:  # told by `run`, whatever it is
            self._error = self._error or error
        self._start()

    async def _settle(self) -> None:
        """Let programs react to all that they have got."""
        ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
        await asyncio.sleep(0)
        while ready:
            await asyncio.sleep(0)
