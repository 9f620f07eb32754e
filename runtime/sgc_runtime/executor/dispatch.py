"""The one way to a backend and to a tool: what the journal has, else attempts within the policy.

Without a journal and without a policy, a call is nothing but an await of the backend.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sgc_ir.errors import BackendError
from sgc_ir.params import CallResult
from sgc_runtime.executor.answers import checked
from sgc_runtime.executor.attempts import attempts
from sgc_runtime.executor.backend import BackendStream, Call
from sgc_runtime.executor.core import StreamCore
from sgc_runtime.executor.merges import Place, tool_key
from sgc_runtime.executor.policy import NO_POLICY, Policy
from sgc_runtime.executor.tools import Tool, plain_json, run_tool


async def call_model(
    core: StreamCore,
    name: str,
    stream: BackendStream,
    call: Call,
    restart: Callable[[], str],
) -> list[CallResult]:
    """The results of a gen or select; a select gives one.

    Args:
        name: the variable that the call fills.
        stream: the backend stream of `core`.
        restart: told before a further attempt; gives the text pieces that cannot be taken back.

    Raises what the backend and the journal raise, BadAnswer for an answer that makes no sense,
    DeadlineError, and GaveUp after several attempts.
    """
    ctx = core.ctx
    if ctx.log is None and ctx.policies is None:
        return await _ask(core, stream, call)
    if ctx.log is not None:
        finished = ctx.log.finished_call(call)
        if finished is not None:
            await stream.restore(call, finished)
            return finished
    policy = ctx.policies.of_call(name) if ctx.policies is not None else None
    if policy is None:
        results = await _ask(core, stream, call)
    else:
        results = await _ModelAttempts(core, call, restart).run(policy)
    if ctx.log is not None:
        ctx.log.record_call(call, results)
    return results


async def _ask(core: StreamCore, stream: BackendStream, call: Call) -> list[CallResult]:
    if core.ctx.turn is None:
        return await _ask_now(core, stream, call)
    async with core.ctx.turn:
        return await _ask_now(core, stream, call)


async def _ask_now(core: StreamCore, stream: BackendStream, call: Call) -> list[CallResult]:
    try:
        if call.params.choices is not None:
            results = [await stream.select(call)]
        else:
            results = await stream.generate(call)
    except (SystemExit, KeyboardInterrupt) as error:  # would end the event loop
        raise BackendError(f"the backend raised {type(error).__name__}: {error}") from error
    vocab_size = getattr(core.ctx.source.backend, "vocab_size", None)
    return checked(call.params, results, vocab_size)


class _ModelAttempts:
    """The attempts at one model call."""

    def __init__(self, core: StreamCore, call: Call, restart: Callable[[], str]) -> None:
        self._core = core
        self._call = call
        self._restart = restart
        self._pieces: _Pieces | None = None  # of the last attempt

    async def run(self, policy: Policy) -> list[CallResult]:
        if policy.deadline is not None:
            await self._core.ctx.backend_ready()
        try:
            return await attempts(self._once, policy, self._core.renew_stream)
        finally:
            self._end_pieces()

    async def _once(self) -> list[CallResult]:
        call = self._call
        if call.on_text is not None:
            # Here, not at the end of an attempt: one that is left alone has no end.
            given = self._restart() if self._pieces is not None else ""
            self._end_pieces()
            self._pieces = _Pieces(call.on_text, given)
            call = replace(call, on_text=self._pieces.add)
        return await _ask(self._core, self._core.take_stream(), call)

    def _end_pieces(self) -> None:
        if self._pieces is not None:
            self._pieces.end()


class _Pieces:
    """Text pieces of one attempt: gives on what earlier ones have not given already."""

    def __init__(self, give: Callable[[str], None], given: str) -> None:
        self._give: Callable[[str], None] | None = give
        self._given = given
        self._text = ""

    def add(self, piece: str) -> None:
        self._text += piece
        if self._give is None or not self._text.startswith(self._given):
            return  # of an attempt that was left alone, or not beyond what was given
        new, self._given = self._text[len(self._given) :], self._text
        self._give(new)

    def end(self) -> None:
        self._give = None


async def call_tool(
    core: StreamCore, node: str, tool: Tool, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """What `tool` gives for the node at path `node`.

    Raises ToolError, DeadlineError, GaveUp after several attempts, InputError for a policy that
    the tool must not have, and what the journal raises.
    """
    log, policies = core.ctx.log, core.ctx.policies
    if log is not None:
        finished = log.finished_tool(node, tool, args, kwargs)
        if finished is not None:
            return finished.value
    if policies is not None:
        policy = policies.of_tool(tool)
    else:
        policy = Policy(tool.deadline, tool.retries or 0)
    if log is not None:
        await log.begin_tool(node, tool, args, kwargs)

    async def make() -> Any:
        if policy == NO_POLICY:
            return await run_tool(tool, args, kwargs)
        return await attempts(lambda: run_tool(tool, args, kwargs), policy)

    merges = core.ctx.merges
    key = None if merges is None else tool_key(tool, args, kwargs)
    if merges is None or key is None:
        value = await make()
    else:
        value, is_made = await merges.once(key, Place(core.ctx.row, node), make)
        value = value if is_made else plain_json(value)  # a copy, each may change its own
    if log is not None:
        await log.end_tool(node, tool, value)
    return value
