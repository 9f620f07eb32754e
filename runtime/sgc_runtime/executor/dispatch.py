"""The one way to a backend and to a tool: what the journal has, else attempts within the policy.

Without a journal and without a policy, a call is nothing but an await of the backend.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from sgc_ir.errors import BackendError, DeadlineError
from sgc_ir.params import CallResult
from sgc_runtime.executor.backend import BackendStream, Call
from sgc_runtime.executor.core import StreamCore
from sgc_runtime.executor.policy import NO_POLICY, GaveUp, Policy, may_pass, pause_s
from sgc_runtime.executor.tools import Tool, run_tool

T = TypeVar("T")
CANCEL_S = 0.05  # a cancelled attempt may take so long to end; then it is left alone

_left_alone: set[asyncio.Task[Any]] = set()  # kept alive: the loop itself holds no references


class BadAnswer(BackendError):
    """The backend answered, and its stream may have gone on, but the answer makes no sense."""

    def __init__(self, message: str, text: str | None) -> None:
        super().__init__(message)
        self.text = text  # what the stream has gone on with, where that is known


# -- model calls


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

    Raises what the backend raises, BackendError for an answer that makes no sense, DeadlineError,
    and GaveUp after several attempts.
    """
    ctx = core.ctx
    if ctx.log is None and ctx.policies is None:
        return checked(core, call, await _ask(stream, call))
    if ctx.log is not None:
        finished = ctx.log.finished_call(call)
        if finished is not None:
            await stream.restore(call, finished)
            return finished
    policy = ctx.policies.of_call(name) if ctx.policies is not None else None
    if policy is None:
        results = checked(core, call, await _ask(stream, call))
    else:
        results = await _ModelAttempts(core, call, restart).run(policy)
    if ctx.log is not None:
        ctx.log.record_call(call, results)
    return results


async def _ask(stream: BackendStream, call: Call) -> list[CallResult]:
    if call.params.choices is not None:
        return [await stream.select(call)]
    return await stream.generate(call)


class _ModelAttempts:
    """The attempts at one model call."""

    def __init__(self, core: StreamCore, call: Call, restart: Callable[[], str]) -> None:
        self._core = core
        self._call = call
        self._restart = restart
        self._given = ""

    async def run(self, policy: Policy) -> list[CallResult]:
        if policy.deadline is not None:
            await self._core.ctx.backend_ready()
        return await attempts(self._once, policy, self._core.renew_stream)

    async def _once(self) -> list[CallResult]:
        call, pieces = self._call, None
        if call.on_text is not None:
            pieces = _Pieces(call.on_text, self._given)
            call = replace(call, on_text=pieces.add)
        try:
            return checked(self._core, call, await _ask(self._core.take_stream(), call))
        except Exception:
            self._given = self._restart()
            raise
        finally:
            if pieces is not None:
                pieces.end()


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


def checked(core: StreamCore, call: Call, results: list[CallResult]) -> list[CallResult]:
    """`results`, unless they make no sense. Raises BadAnswer.

    Ids are held against the `vocab_size` of a backend that has one.
    """
    params = call.params
    if type(results) is not list or len(results) != params.n:
        found = f"{len(results)} samples" if type(results) is list else f"{results!r:.60}"
        raise BadAnswer(f"the backend gave {found} for n={params.n}", _text_of(results))
    vocab_size = getattr(core.ctx.source.backend, "vocab_size", None)
    for result in results:
        problem = _problem(result, vocab_size)
        if problem:
            raise BadAnswer(f"the backend gave {problem}", _text_of(results))
    if params.choices is not None:
        _check_choice(params.choices, results[0])
    return results


def _problem(result: Any, vocab_size: int | None) -> str:
    if not isinstance(result, CallResult):
        return f"a {type(result).__name__} in place of a result"
    if type(result.text) is not str:
        return f"a text of type {type(result.text).__name__}"
    ids = result.token_ids
    if len(ids):
        low, high = min(ids), max(ids)
        if low < 0 or (vocab_size is not None and high >= vocab_size):
            return f"the token id {low if low < 0 else high}, which is outside of the vocabulary"
    return ""


def _check_choice(choices: Sequence[str], result: CallResult) -> None:
    if result.text not in choices:
        raise BadAnswer(f"the backend chose {result.text!r:.60}, which is no choice", result.text)
    scores = result.meta.get("scores")
    if scores is None:
        return
    if len(scores) != len(choices):
        raise BadAnswer(
            f"the backend gave {len(scores)} scores for {len(choices)} choices", result.text
        )
    for choice, score in zip(choices, scores, strict=True):
        if math.isnan(score):
            raise BadAnswer(f"the backend scored {choice!r:.60} as {score}", result.text)


def _text_of(results: Any) -> str | None:
    """Sample 0's text, with which the backend's stream has gone on."""
    first = results[0] if isinstance(results, list) and results else None
    text = getattr(first, "text", None)
    return text if type(text) is str else None


# -- tools


async def call_tool(
    core: StreamCore, node: str, tool: Tool, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """What `tool` gives for the node at path `node`.

    Raises ToolError, DeadlineError, and GaveUp after several attempts.
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
    if policy == NO_POLICY:
        value = await run_tool(tool, args, kwargs)
    else:
        value = await attempts(lambda: run_tool(tool, args, kwargs), policy)
    if log is not None:
        await log.end_tool(node, tool, value)
    return value


# -- attempts


async def attempts(
    once: Callable[[], Coroutine[Any, Any, T]],
    policy: Policy,
    left_alone: Callable[[], object] | None = None,
) -> T:
    """What `once()` gives, tried as often and as long as `policy` says.

    `left_alone` is called when an attempt goes on although it was cancelled.
    """
    number = 1
    while True:
        try:
            return await _within(policy.deadline, once, left_alone)
        except BadAnswer:
            raise  # the stream has gone on with it
        except Exception as error:
            if number <= policy.retries and may_pass(error):
                pause = pause_s(number)
            elif number == 1:
                raise
            else:
                raise GaveUp(error, number) from error
        await asyncio.sleep(pause)
        number += 1


async def _within(
    deadline: float | None,
    once: Callable[[], Coroutine[Any, Any, T]],
    left_alone: Callable[[], object] | None,
) -> T:
    if deadline is None:
        return await _uncancelled(once())
    task = asyncio.get_running_loop().create_task(once())
    try:
        done, _ = await asyncio.wait({task}, timeout=deadline)
    except asyncio.CancelledError:
        _leave(task)
        raise
    if not done:
        _leave(task)
        await asyncio.wait({task}, timeout=CANCEL_S)
        if not task.done() and left_alone is not None:
            left_alone()
        if not task.done() or task.cancelled():
            raise DeadlineError(f"took longer than its deadline of {deadline:g} s")
    return await _uncancelled(task)  # perhaps an answer that came while it was being cancelled


async def _uncancelled(work: Awaitable[T]) -> T:
    """What `work` gives; that it is cancelled from inside is a fault of a backend or tool."""
    try:
        return await work
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise BackendError("the call was cancelled by what should have answered it") from None


def _leave(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait for it no more."""
    task.cancel()
    _left_alone.add(task)
    task.add_done_callback(_forget)


def _forget(task: asyncio.Task[Any]) -> None:
    _left_alone.discard(task)
    if not task.cancelled():
        task.exception()  # seen: nobody waits for it
