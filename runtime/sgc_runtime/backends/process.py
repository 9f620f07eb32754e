"""The local engine in a process of its own, as a backend.

The step loop has an interpreter for itself: programs, templates and journals of this process take
no time from it, nor it from them. What one iteration of an event loop asks goes there in one
message (`process_channel`), what one step of the engine answers comes back in one.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from sgc_ir.params import CallResult
from sgc_runtime.backends.model_source import ModelSource, texts_of
from sgc_runtime.backends.process_child import EngineProcess
from sgc_runtime.backends.process_messages import plain_call, plain_result, result_of
from sgc_runtime.engine.options import EngineOptions
from sgc_runtime.executor.backend import BackendStream, Call, Piece
from sgc_runtime.models import DEFAULT_MODEL


class ProcessBackend(ModelSource):
    """Runs a model in another process, which starts at the first call and ends with this one.

    Its streams give what those of a `LocalBackend` with the same options give. When the process
    is gone, calls in flight and later ones raise BackendError.

    Args:
        model, options: see `LocalBackend`.

    Raises:
        BackendError: an option that has no meaning.
    """

    def __init__(self, model: str | os.PathLike[str] = DEFAULT_MODEL, **options: Any) -> None:
        chosen = EngineOptions(**options)
        super().__init__(model, chosen)
        plain = {**asdict(chosen), "device": str(chosen.device), "process": "off"}
        self._process = EngineProcess(self.model, plain)
        weakref.finalize(self, self._process.close, wait=False).atexit = False

    @property
    def vocab_size(self) -> int | None:
        """Ids of the model, None before it is loaded."""
        return self._process.vocab_size

    @property
    def pid(self) -> int | None:
        """Id of the engine's process, None before it is started."""
        return self._process.pid

    def open(self) -> BackendStream:
        return ProcessStream(self, self._process)

    def identity(self) -> Mapping[str, Any]:
        """What results depend on, for a journal: plain data. Raises ModelError, and BackendError
        when the process is gone."""
        # There, since it takes torch, which nothing else needs here.
        found: Mapping[str, Any] = self._process.question_now("identity")
        return found

    def load(self) -> None:
        """Load the model now. Raises ModelError or BackendError if that cannot be done."""
        self._process.question_now("load")

    async def ready(self) -> None:
        """Returns when the model is loaded; deadlines of calls count from there."""
        await self._process.question("load")

    def stats(self) -> Mapping[str, Any]:
        """Counters under the names of `--stats`, and `load_seconds`, which here begin with the
        process; empty before the model is loaded."""
        return self._process.stats()

    def close(self) -> None:
        """End the process and wait for its end; calls in flight fail. The backend cannot be used
        again."""
        self._process.close()


class ProcessStream:
    """A stream of the engine in the other process. See `BackendStream`.

    Text goes there with the call that needs it, and the stream itself with its first call.

    Args:
        backend: kept, since it would end the process if it were dropped.
        known: whether the process knows the stream.
        unsent: text and whether it is control text, since the last message.
    """

    __slots__ = ("_backend", "_known", "_name", "_process", "_unsent")

    def __init__(
        self,
        backend: ProcessBackend,
        process: EngineProcess,
        known: bool = False,
        unsent: Iterable[list[Any]] = (),
    ) -> None:
        self._backend, self._process = backend, process
        self._name = process.new_name()
        self._known, self._unsent = known, list(unsent)

    def append(self, pieces: Sequence[Piece]) -> None:
        self._unsent += [[p.text, p.control] for p in texts_of(pieces) if p.text]

    async def generate(self, call: Call) -> list[CallResult]:
        return [result_of(result) for result in await self._ask("call", call)]

    async def select(self, call: Call) -> CallResult:
        (result,) = await self._ask("call", call)
        return result_of(result)

    async def restore(self, call: Call, results: Sequence[CallResult]) -> None:
        await self._ask("restore", call, plain_result(results[0]))

    async def _ask(self, kind: str, call: Call, *more: Any) -> Any:
        message = (kind, self._name, self._unsent, plain_call(call), *more)
        question = self._process.ask(*message, on_text=call.on_text)
        self._known, self._unsent = True, []
        return await question

    def fork(self) -> BackendStream:
        if not self._known:
            return ProcessStream(self._backend, self._process, unsent=self._unsent)
        made = ProcessStream(self._backend, self._process, known=True)
        self._process.post("fork", self._name, self._unsent, made._name)
        self._unsent = []
        return made

    def close(self) -> None:
        if self._known:
            self._process.post("drop", self._name)
        self._known, self._unsent = False, []

    def __del__(self) -> None:
        self.close()

    def hint(self, **facts: Any) -> None:
        if not self._known and "ahead" not in facts:
            return
        with suppress(TypeError):  # no plain data: a hint that is lost changes no result
            self._process.post("hint", self._name, self._unsent, facts)
            self._known, self._unsent = True, []
