"""The local engine as a backend: a model on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from sgc_ir.errors import BackendError
from sgc_ir.params import CallResult
from sgc_runtime.backends.model_source import ModelSource, texts_of
from sgc_runtime.engine.options import EngineOptions
from sgc_runtime.engine.stream import TokenStream
from sgc_runtime.executor.backend import BackendStream, Call, Piece, Text
from sgc_runtime.models import DEFAULT_MODEL, resolve

if TYPE_CHECKING:  # brings in torch, which programs without model calls need not wait for
    from sgc_runtime.engine.assemble import LoadedEngine
    from sgc_runtime.engine.prefill_ahead import AheadJob


class LocalBackend(ModelSource):
    """Runs a model in this process. Tokenizer and model load when they are first needed.

    Args:
        model: registered name, Hugging Face directory, `.gguf` file or hub id.
        dtype, device, kv_tokens, kv_memory: see `EngineOptions`, as for the names in `options`
            (`weights` among them).

    Raises:
        BackendError: an option that has no meaning.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] = DEFAULT_MODEL,
        *,
        dtype: str | None = None,
        device: str = "cpu",
        kv_tokens: int | None = None,
        kv_memory: int | str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(
            model,
            EngineOptions(
                dtype=dtype, device=device, kv_tokens=kv_tokens, kv_memory=kv_memory, **options
            ),
        )
        self._loading: Future[LoadedEngine] | None = None
        self._load_seconds = 0.0
        self._closed = False

    @property
    def vocab_size(self) -> int | None:
        """Ids of the model, None before it is loaded."""
        loaded = self.engine_now
        return loaded.vocab_size if loaded is not None else None

    def open(self) -> BackendStream:
        return LocalStream(self, TokenStream())

    def load(self) -> None:
        """Load the model now. Raises ModelError or BackendError if that cannot be done."""
        self._started().result()

    def stats(self) -> Mapping[str, Any]:
        """Counters under the names of `--stats`, and `load_seconds`; empty before the first
        call."""
        loaded = self.engine_now
        if loaded is None:
            return {}
        return {**loaded.stats(), "load_seconds": self._load_seconds}

    @property
    def engine_now(self) -> LoadedEngine | None:
        """The engine, None before its model is loaded."""
        loading = self._loading
        if loading is None or not loading.done() or loading.exception() is not None:
            return None
        return loading.result()

    def close(self) -> None:
        """End the engine; calls in flight fail. The backend cannot be used again."""
        with self._lock:
            self._closed = True
            loading = self._loading
        if loading is not None:
            loading.add_done_callback(_close_engine)  # at once, or when a load in progress ends

    async def ready(self) -> None:
        """Returns when the model is loaded; deadlines of calls count from there."""
        await self.engine()

    async def engine(self) -> LoadedEngine:
        """The `LoadedEngine`, loaded once for all who wait."""
        loaded = None if self._closed else self.engine_now
        if loaded is not None:  # each call comes by here
            return loaded
        return await asyncio.wrap_future(self._started())

    def _started(self) -> Future[LoadedEngine]:
        with self._lock:
            if self._closed:
                raise BackendError("this backend is closed; make a new one")
            if self._loading is None:
                self._loading = Future()
                # Running: somebody who stops waiting cannot cancel it for the others.
                self._loading.set_running_or_notify_cancel()
                threading.Thread(target=self._load, name="sgc-load", daemon=True).start()
            return self._loading

    def _load(self) -> None:
        assert self._loading is not None
        begin = time.perf_counter()
        try:
            # While torch is imported, most of which runs outside the interpreter.
            threading.Thread(target=self._load_tokenizer, name="sgc-tokenizer", daemon=True).start()
            from sgc_runtime.engine.assemble import load_engine

            loaded = load_engine(resolve(self.model), self.tokenizer, self._options)
            loaded.seams = self.own_seams()  # one memory of what was encoded
        except BaseException as error:  # whatever it is, those who wait must hear of it
            self._loading.set_exception(error)
            return
        self._load_seconds = time.perf_counter() - begin
        self._loading.set_result(loaded)

    def _load_tokenizer(self) -> None:
        with contextlib.suppress(Exception):  # raised again where it is asked for
            _ = self.tokenizer


def _close_engine(loading: Future[LoadedEngine]) -> None:
    if loading.exception() is None:
        loading.result().close()


class LocalStream:
    """A stream of the local engine. See `BackendStream`."""

    def __init__(self, backend: LocalBackend, tokens: TokenStream) -> None:
        self._backend = backend
        self._tokens = tokens
        self._ahead: AheadJob | None = None

    @property
    def ids(self) -> list[int]:
        """Ids of the prompt as far as it has been encoded."""
        ids: list[int] = self._tokens.ids.tolist()
        return ids

    def append(self, pieces: Sequence[Piece]) -> None:
        self._tokens.append(texts_of(pieces))

    def encode(self) -> None:
        """Encode what was appended, as a gen does first. Raises ModelError and BackendError."""
        self._tokens.resolve(self._backend.own_seams())

    async def generate(self, call: Call) -> list[CallResult]:
        self._drop_ahead()
        if call.params.distribution == "exact":
            from sgc_runtime.engine.exact_gen import generate_exact as generate
        else:
            from sgc_runtime.engine.generation import generate

        return await generate(await self._backend.engine(), self._tokens, call)

    async def select(self, call: Call) -> CallResult:
        from sgc_runtime.engine.selection import select

        self._drop_ahead()
        return await select(await self._backend.engine(), self._tokens, call)

    async def restore(self, call: Call, results: Sequence[CallResult]) -> None:
        from sgc_runtime.engine.restore import restore

        self._drop_ahead()
        restore(self._tokens, await self._backend.seams(), call.params, results[0])

    def fork(self) -> BackendStream:
        return LocalStream(self._backend, self._tokens.fork())

    def close(self) -> None:
        self._drop_ahead()
        self._tokens = TokenStream()

    def hint(self, ahead: Sequence[tuple[str, bool]] | None = None, **facts: Any) -> None:
        """Have the prompt computed as far as `ahead` once the engine has nothing else to do. What
        a program says of readers the calls themselves say better."""
        loaded = self._backend.engine_now
        if ahead is None or loaded is None or not self._backend.takes_hints:
            return
        from sgc_runtime.engine.prefill_ahead import AheadJob

        self._drop_ahead()
        if len(loaded.engine.core.scheduler.waiting):
            return  # there is something else to do, for longer than the hint is likely to hold
        tokens = self._tokens.fork()
        tokens.append([Text(text, control) for text, control in ahead])
        with contextlib.suppress(BackendError):  # nothing to go on from: there is nothing to do
            ids = tokens.resolve(loaded.seams)
            if len(ids) <= loaded.max_positions:
                self._ahead = AheadJob(ids, tokens.prefix)
                loaded.engine.compute_ahead(self._ahead)

    def _drop_ahead(self) -> None:
        """What was to be computed ahead comes now, or never."""
        if self._ahead is not None:
            self._ahead.dropped, self._ahead = True, None
