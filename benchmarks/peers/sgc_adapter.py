"""Our engine on a recorded run: ids through its streams, or the suite's program itself."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence

import numpy as np

from benchmarks.common.peer import Replay
from benchmarks.common.recording import RecordedCall, Recording
from benchmarks.common.sgc_engine import SgcEngine
from benchmarks.peers.adapter import Ids
from benchmarks.peers.recorded import run_suite
from sgc.eval.suite import Row, Suite
from sgc_ir.params import SamplingParams
from sgc_runtime.backends.local import LocalStream
from sgc_runtime.engine.choice_plan import ChoicePlan
from sgc_runtime.engine.request import Request
from sgc_runtime.engine.scoring import Scoring
from sgc_runtime.engine.selection import Ballot
from sgc_runtime.engine.stream import TokenStream
from sgc_runtime.engine.waiting import Waiter
from sgc_runtime.executor.backend import Call


class SgcReplay:
    """A loaded engine; each call begins when its parent is done."""

    name = "sgc"
    method = (
        "ids through the streams of LocalBackend, prefix cache, choices scored as one trie, "
        "each call as soon as its parent is done"
    )
    lacks: tuple[str, ...] = ()

    def __init__(self, engine: SgcEngine) -> None:
        self.engine = engine
        self._loop = asyncio.new_event_loop()
        self._turn = threading.Lock()

    def replay(self, recording: Recording, parallel: int) -> Replay:
        self.engine.clear()
        begin = time.perf_counter()
        with self._turn:
            outputs, scored = self._loop.run_until_complete(self._replay(recording, parallel))
        seconds = time.perf_counter() - begin
        return Replay(seconds, outputs, scored)

    def time_program(self, suite: Suite, rows: Sequence[Row], parallel: int) -> tuple[float, int]:
        """Seconds of the suite's own program, tokenising and executing included, and the ids that
        it made."""
        self.engine.clear()
        begin = time.perf_counter()
        states = run_suite(suite, rows, self.engine.backend, parallel)
        seconds = time.perf_counter() - begin
        return seconds, sum(state.usage.completion_tokens for state in states)

    def close(self) -> None:
        self.engine.backend.close()
        self._loop.close()

    async def _replay(self, recording: Recording, parallel: int) -> tuple[list[Ids], int]:
        outputs: list[Ids] = [[] for _ in recording.calls]
        tasks: list[asyncio.Task[int]] = []
        free = asyncio.Semaphore(parallel)

        async def one(number: int) -> int:
            call = recording.calls[number]
            if call.parent is not None:
                await tasks[call.parent]
            async with free:
                prompt = recording.prompt_of(number, outputs)
                if call.choices:
                    return await self._score(call, prompt)
                outputs[number] = await self._generate(call, prompt, number)
                return 0

        tasks += [asyncio.ensure_future(one(i)) for i in range(len(recording.calls))]
        return outputs, sum(await asyncio.gather(*tasks))

    async def _generate(self, call: RecordedCall, prompt: Ids, number: int) -> Ids:
        stream = LocalStream(self.engine.backend, TokenStream(ids=np.array(prompt, np.int32)))
        params = SamplingParams(
            max_tokens=call.num_new, temperature=call.heat, ignore_eos=True, top_k=0
        )
        asked = Call(f"g{number}", "", number, params, (number,), instance=number, more_tokens=0)
        (result,) = await stream.generate(asked)
        return list(result.token_ids)

    async def _score(self, call: RecordedCall, prompt: Ids) -> int:
        whole = tuple(np.array((*prompt, *choice), np.int32) for choice in call.choices)
        plan = ChoicePlan(whole, len(prompt), None)
        ballot = Ballot(plan, "token_length_normalized", {})
        waiter = Waiter(self.engine.loaded.engine)
        request = Request(
            ballot.trie.tokens,
            on_done=waiter.on_done,
            scoring=Scoring(ballot.trie, ballot.decide),
            call_prompt=plan.start,
            more_tokens=0,
        )
        await waiter.run([request])
        return int(np.isfinite(ballot.scores).sum())
