"""Our engine on prompts of ids, through the streams of a `LocalBackend`."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

import numpy as np

from benchmarks.gpu.engine_api import Generated
from benchmarks.gpu.prompts import Ids
from benchmarks.gpu.scripts import Script
from sgc_ir.params import CallResult, SamplingParams
from sgc_runtime.backends.local import LocalBackend, LocalStream
from sgc_runtime.engine.assemble import LoadedEngine
from sgc_runtime.engine.stream import TokenStream
from sgc_runtime.executor.backend import Call

Result = TypeVar("Result")


class SgcIds:
    """A loaded engine.

    Args:
        model: a folder.
        options: of `LocalBackend`.

    Attributes:
        load_s: seconds that loading took.
    """

    def __init__(self, model: str, **options: Any) -> None:
        self.settings = dict(options)
        self.name = f"sgc {_version()}"
        self.backend = LocalBackend(model, **options)
        begin = time.perf_counter()
        self.backend.load()
        self.load_s = time.perf_counter() - begin
        self._loop = asyncio.new_event_loop()
        self._turn = threading.Lock()  # one run at a time
        self._instances = 0
        self.loaded: LoadedEngine = self._run(self.backend.engine())
        self.settings["budgets"] = asdict(self.loaded.budgets)

    @property
    def decode_steps(self) -> int:
        """Steps so far in which rows got a token."""
        return self.loaded.engine.core.metrics.decode_steps

    @property
    def vocab_size(self) -> int:
        return self.loaded.vocab_size

    def stats(self) -> dict[str, Any]:
        """Counters of the engine."""
        return dict(self.backend.stats())

    def batch(
        self,
        prompts: Sequence[Ids],
        new_tokens: int,
        regex: str | None = None,
        temperature: float = 0.0,
    ) -> Generated:
        params = SamplingParams(
            max_tokens=new_tokens, temperature=temperature, ignore_eos=regex is None, regex=regex
        )
        first = self._begin_instances(len(prompts))
        results = self._run(self._all(prompts, params, first))
        return Generated(
            [list(result.token_ids) for result in results],
            [result.text for result in results],
            sum(result.usage.cached_tokens for result in results),
        )

    def replay(self, script: Script) -> list[Ids]:
        """Each call begins when those that it waits for are done, on a fork of its parent."""
        return self._run(self._replay(script))

    async def _replay(self, script: Script) -> list[Ids]:
        first = self._begin_instances(1 + max(call.instance for call in script.calls))
        outputs: list[Ids | None] = [None] * len(script.calls)
        streams: list[LocalStream | None] = [None] * len(script.calls)
        tasks: list[asyncio.Task[None]] = []

        async def one(number: int) -> None:
            call = script.calls[number]
            for before in call.waits_for():
                await tasks[before]
            parent = None if call.parent is None else streams[call.parent]
            tokens = TokenStream() if parent is None else parent._tokens.fork()
            stream = self._stream(_extended(tokens, script.tail(number, outputs)))
            params = SamplingParams(max_tokens=call.new_tokens, temperature=0.0, ignore_eos=True)
            result = await _generate(stream, params, number, first + call.instance)
            streams[number], outputs[number] = stream, list(result.token_ids)

        tasks += [asyncio.ensure_future(one(i)) for i in range(len(script.calls))]
        await asyncio.gather(*tasks)
        return [ids for ids in outputs if ids is not None]

    def close(self) -> None:
        self.backend.close()
        self._loop.close()

    async def _all(
        self, prompts: Sequence[Ids], params: SamplingParams, first: int
    ) -> list[CallResult]:
        async def one(number: int, ids: Ids) -> CallResult:
            stream = self._stream(TokenStream(ids=_array(ids)))
            return await _generate(stream, params, number, first + number)

        return await asyncio.gather(*(one(i, ids) for i, ids in enumerate(prompts)))

    def _stream(self, tokens: TokenStream) -> LocalStream:
        return LocalStream(self.backend, tokens)

    def _begin_instances(self, number: int) -> int:
        self._instances += number
        return self._instances - number

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        with self._turn:
            return self._loop.run_until_complete(work)


async def _generate(
    stream: LocalStream, params: SamplingParams, number: int, instance: int
) -> CallResult:
    call = Call(f"g{number}", "", number, params, (number,), instance=instance, more_tokens=0)
    return (await stream.generate(call))[0]


def _extended(tokens: TokenStream, ids: Ids) -> TokenStream:
    """The stream with more ids behind it; bytes of an incomplete character end there."""
    kept = len(tokens.ids)
    tokens.replace(np.concatenate([tokens.ids, _array(ids)]), kept)
    tokens.pieces, tokens.pending = (), b""
    return tokens


def _array(ids: Ids) -> np.ndarray[Any, np.dtype[np.int32]]:
    return np.array(ids, np.int32)


def _version() -> str:
    try:
        return version("sgc")
    except PackageNotFoundError:
        return "of this tree"
