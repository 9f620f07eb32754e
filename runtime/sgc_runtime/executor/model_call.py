"""Gen and select: parameters resolved, prompt flushed, backend called, variable filled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from sgc_ir.errors import BackendError, InputError
from sgc_ir.params import CallResult, SamplingParams
from sgc_runtime.executor.answers import BadAnswer
from sgc_runtime.executor.backend import Backend, BackendStream, Call
from sgc_runtime.executor.cell import Cell
from sgc_runtime.executor.core import Op, StreamCore
from sgc_runtime.executor.dispatch import call_model
from sgc_runtime.executor.event import Event
from sgc_runtime.executor.lifetimes import CallFacts, forget, tell
from sgc_runtime.executor.overrides import overridden
from sgc_runtime.executor.pending import Pending
from sgc_runtime.executor.scope import Order
from sgc_runtime.executor.seeds import call_seeds
from sgc_runtime.executor.values import meta_of, value_of


class ModelCall(Op):
    """One gen or select.

    `params` are gen's set arguments, or `SamplingParams` with the run's defaults already filled
    in. With `choices` it is a select. `facts` are what its graph knows of it.
    """

    __slots__ = ("_facts", "_is_issued", "_ordinal", "_params", "pending")

    def __init__(
        self,
        pending: Pending,
        ordinal: Any,
        params: Any,
        source: Any,
        order: Order,
        facts: CallFacts | None = None,
    ) -> None:
        static = isinstance(ordinal, int) and isinstance(params, SamplingParams)
        super().__init__(None if static else (ordinal, params), source, order)
        self.pending = pending
        self._ordinal = ordinal
        self._params = params
        self._facts = facts
        self._is_issued = False  # or will never be

    def path(self, core: StreamCore) -> str:
        ordinal = self._ordinal.value if isinstance(self._ordinal, Cell) else self._ordinal
        return core.child_path("g", "?" if ordinal is None else ordinal, "", core)

    def run(self, core: StreamCore, value: Any) -> bool:
        params = _resolved(value[1] if value else self._params, core.ctx.defaults.params)
        source = core.ctx.source
        if source.backend is not None:
            self._dispatch(core, source.backend, params)
        else:
            source.get().then(lambda cell: self._backend_ready(core, cell, params))
        return False

    def _backend_ready(self, core: StreamCore, cell: Cell, params: SamplingParams) -> None:
        if not core.in_flight(self):
            return
        try:
            self._dispatch(core, cell.result(), params)
        except Exception as error:
            core.fail(self, error)
            core.resume(self)

    def _dispatch(self, core: StreamCore, backend: Backend, params: SamplingParams) -> None:
        ctx, prompt = core.ctx, core.prompt
        prompt.flush(backend.chat_template)
        stream = core.take_stream()
        node = self.path(core)
        self._is_issued = True
        hints = tell(core, params, self._facts, backend.chat_template) if ctx.tells else _NO_HINTS
        call = Call(
            node=node,
            stream=core.path,
            row=ctx.row,
            instance=ctx.instance,
            params=params,
            seeds=call_seeds(params, ctx.defaults.seed, ctx.row, node),
            end_of_turn=prompt.open_turn is not None,
            on_text=self._listener(core) if ctx.stream_text else None,
            view=prompt,
            **hints,
        )
        ctx.spawn(self._invoke(core, stream, call), node, self)

    def _listener(self, core: StreamCore) -> Callable[[str], None]:
        def on_text(text: str) -> None:
            if text and core.in_flight(self):
                self.pending.add_piece(text)
                self._emit(core, text, done=False)

        return on_text

    def _emit(self, core: StreamCore, text: str, done: bool) -> None:
        on_event = core.ctx.on_event
        if on_event is not None:
            on_event(Event(self.path(core), core.path, self.pending.name, text, done))

    async def _invoke(self, core: StreamCore, stream: BackendStream, call: Call) -> None:
        try:
            name = self.pending.name
            results = await call_model(core, name, stream, call, lambda: self._restart(core))
            if core.in_flight(self):
                self._finish(core, call, results)
        except asyncio.CancelledError:
            if core.ctx.cancelled is not None or core.cut is not None:
                raise
            core.fail(self, BackendError("the backend cancelled the call"))
        except BadAnswer as error:
            if core.in_flight(self):
                if error.text is not None:  # the backend's stream goes on with it, so do we
                    core.prompt.add_generated(error.text, call.node, core.ctx.template)
                core.fail(self, error)
        except Exception as error:
            if core.in_flight(self):
                core.fail(self, error)
        core.resume(self)

    def _finish(self, core: StreamCore, call: Call, results: list[CallResult]) -> None:
        ctx, scope, params = core.ctx, core.scope, call.params
        for result in results:
            ctx.usage += result.usage
            ctx.spent.append((core, result.usage))
            if scope is not ctx.scope:
                scope.usage += result.usage
        if ctx.nodes is not None:
            ctx.nodes.add(scope.program, call.node, self.pending.name, self.source, results)
        first = results[0].text
        core.prompt.add_generated(first, call.node, ctx.template)
        if params.choices is not None:
            value: Any = first
        else:
            values = [value_of(params, result) for result in results]
            value = values if params.n > 1 else values[0]
        self._finish_text(core, first)
        self.pending.finish(value, meta_of(params, results))

    def _restart(self, core: StreamCore) -> str:
        return self.pending.restart(shown=core.ctx.on_event is not None)

    def _finish_text(self, core: StreamCore, text: str) -> None:
        pieces = self.pending.text_pieces
        seen = "".join(pieces) if pieces else ""
        if not text.startswith(seen):
            raise BackendError(f"the backend streamed {seen!r}, then gave {text!r}")
        rest = text[len(seen) :]
        if rest or not seen:
            self.pending.add_piece(rest)
        if core.ctx.on_event is not None:
            self._emit(core, rest, done=True)

    def skip(self, core: StreamCore, error: BaseException) -> None:
        self.pending.fail(error)
        if not self._is_issued:
            self._is_issued = True
            forget(core, self._params)


_NO_HINTS: dict[str, Any] = {}


def _resolved(params: Any, defaults: SamplingParams) -> SamplingParams:
    if isinstance(params, SamplingParams):
        return params
    assert isinstance(params, Mapping)
    if params.get("choices", ()) is None:  # a select stays one, whatever the run gives
        raise InputError("choices=None: expected a list of strings")
    try:
        return overridden(defaults, params)
    except (ValueError, TypeError) as error:
        raise InputError(str(error)) from error
