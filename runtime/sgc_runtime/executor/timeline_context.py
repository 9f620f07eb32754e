"""A row's context that tells a timeline of every node; one without a timeline has none of this."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from time import perf_counter
from typing import Any

from sgc_ir.errors import GenerationError
from sgc_ir.params import CallResult
from sgc_runtime.executor.backend import BackendStream, Call, Piece
from sgc_runtime.executor.context import Abortable, RunContext
from sgc_runtime.executor.core import Op, StreamCore
from sgc_runtime.executor.model_call import ModelCall
from sgc_runtime.executor.node_log import Finished, NodeLog
from sgc_runtime.executor.scope import Order
from sgc_runtime.executor.timeline import Attempt, RowTimeline, Span
from sgc_runtime.executor.tools import Tool


class TimelineContext(RunContext):
    """A `RunContext` that writes `timeline`. Further arguments are those of `RunContext`."""

    def __init__(self, timeline: RowTimeline, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._timeline = timeline
        self.log = _TimelineLog(self.log, timeline)

    def add_stream(self, stream: Abortable) -> None:
        assert isinstance(stream, StreamCore)
        self._timeline.stream(stream.path, stream.scope.program)
        super().add_stream(stream)

    def spawn(self, coro: Coroutine[Any, Any, None], node: str, op: Any) -> asyncio.Task[None]:
        is_model = isinstance(op, ModelCall)
        name = op.pending.name if is_model else "tool"
        kind = "gen" if is_model else "tool"
        assert isinstance(op, Op)
        span = self._timeline.begin(node, name, kind, op.source)
        task = super().spawn(coro, node, op)
        task.add_done_callback(lambda done: self._timeline.finish(span, self._state(done)))
        return task

    def _state(self, task: asyncio.Task[None]) -> str:
        return "cancelled" if task.cancelled() or self.cancelled is not None else "ok"

    def fail(self, error: BaseException, order: Order) -> None:
        node = error.node if isinstance(error, GenerationError) else ""
        span = self._timeline.span(node)
        if span is not None:
            span.end("failed", error=" ".join(str(error).split()))
        super().fail(error, order)

    def opened(self, stream: BackendStream) -> BackendStream:
        return super().opened(_TimelineStream(stream, self._timeline))


class _TimelineLog:
    """The row's journal, if it has one; tells of nodes that end. See `NodeLog`."""

    def __init__(self, log: NodeLog | None, timeline: RowTimeline) -> None:
        self._log = log
        self._timeline = timeline

    def finished_call(self, call: Call) -> list[CallResult] | None:
        span = self._timeline.span(call.node)
        if span is not None:
            _describe(span, call)
        found = self._log.finished_call(call) if self._log is not None else None
        if span is not None and found is not None:
            span.results = found
            span.end("restored")
        return found

    def record_call(self, call: Call, results: Sequence[CallResult]) -> None:
        span = self._timeline.span(call.node)
        if span is not None:
            span.results = results
            span.end("ok")
        if self._log is not None:
            self._log.record_call(call, results)

    def finished_tool(
        self, node: str, tool: Tool, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Finished | None:
        span = self._timeline.span(node)
        if span is not None:
            span.name = span.facts["name"] = tool.name
            span.facts["effect"] = tool.effect
        if self._log is None:
            return None
        found = self._log.finished_tool(node, tool, args, kwargs)
        if found is not None and span is not None:
            span.end("restored")
        return found

    async def begin_tool(
        self, node: str, tool: Tool, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        if self._log is not None:
            await self._log.begin_tool(node, tool, args, kwargs)

    async def end_tool(self, node: str, tool: Tool, value: Any) -> None:
        if self._log is not None:
            await self._log.end_tool(node, tool, value)
        span = self._timeline.span(node)
        if span is not None:
            span.end("ok")


def _describe(span: Span, call: Call) -> None:
    params = call.params
    span.kind = "gen" if params.choices is None else "select"
    seeds = [str(seed) for seed in call.seeds]  # of 63 bits, more than a viewer's numbers hold
    span.facts["seed"] = seeds[0] if len(seeds) == 1 else seeds
    if params.choices is None:
        span.facts["max_tokens"] = params.max_tokens


class _TimelineStream:
    """A backend stream, whose attempts are noted. See `BackendStream`."""

    def __init__(self, stream: BackendStream, timeline: RowTimeline) -> None:
        self._stream = stream
        self._timeline = timeline

    def append(self, pieces: Sequence[Piece]) -> None:
        self._stream.append(pieces)

    async def generate(self, call: Call) -> list[CallResult]:
        with _Try(self._timeline.span(call.node)):
            return await self._stream.generate(call)

    async def select(self, call: Call) -> CallResult:
        with _Try(self._timeline.span(call.node)):
            return await self._stream.select(call)

    async def restore(self, call: Call, results: Sequence[CallResult]) -> None:
        await self._stream.restore(call, results)

    def fork(self) -> BackendStream:
        return self._stream.fork()  # the context wraps it

    def close(self) -> None:
        self._stream.close()

    def hint(self, **facts: Any) -> None:
        self._stream.hint(**facts)


class _Try:
    """One attempt at a node."""

    def __init__(self, span: Span | None) -> None:
        self._span = span
        self._attempt = Attempt(perf_counter())

    def __enter__(self) -> None:
        if self._span is not None:
            self._span.attempts.append(self._attempt)

    def __exit__(self, kind: type[BaseException] | None, error: Any, _: object) -> None:
        self._attempt.ended = perf_counter()
        if kind is not None:
            self._attempt.error = " ".join(f"{kind.__name__}: {error}".split()).rstrip(": ")
