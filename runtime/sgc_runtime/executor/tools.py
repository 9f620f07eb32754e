"""Runs tools off the event loop and checks that what they give is plain JSON data."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import math
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from sgc_ir.errors import ToolError
from sgc_runtime.executor.tool_threads import ToolThreads

IRREVERSIBLE = "irreversible"  # the effect of tools that must not run twice
MAX_TOOL_THREADS = 64
MAX_JSON_DEPTH = 200


class Tool(Protocol):
    """A registered tool: its function, name and effect (`pure | repeatable | irreversible`), the
    seconds that one attempt may take, and the attempts after the first; None: the run decides."""

    @property
    def fn(self) -> Callable[..., Any]: ...

    @property
    def name(self) -> str: ...

    @property
    def effect(self) -> str: ...

    @property
    def deadline(self) -> float | None: ...

    @property
    def retries(self) -> int | None: ...


_threads = ToolThreads(MAX_TOOL_THREADS)


def _forget_after_fork() -> None:
    global _threads
    _threads = ToolThreads(MAX_TOOL_THREADS)  # a child process has none of its parent's


os.register_at_fork(after_in_child=_forget_after_fork)


async def run_tool(tool: Tool, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What the tool gives, as a copy. A plain function runs in a thread, an async one is awaited.

    When this is cancelled, a thread goes on to its end and nobody waits for it.

    Raises ToolError when it raises (the cause is chained) or gives no plain JSON data.
    """
    if inspect.iscoroutinefunction(tool.fn):
        result = await _awaited(tool, partial(tool.fn, *args, **kwargs))
    else:
        work = partial(contextvars.copy_context().run, partial(_called, tool, args, kwargs))
        result = await _in_thread(work)
        if inspect.isawaitable(result):
            awaitable = result
            result = await _awaited(tool, lambda: awaitable)
    try:
        return plain_json(result)
    except ValueError as error:
        raise ToolError(
            f"tool {tool.name} gave {error}; return None, bool, int, float, str, list or dict"
        ) from None


async def _in_thread(work: Callable[[], Any]) -> Any:
    job = _threads.submit(work)
    try:
        return await job.future
    except asyncio.CancelledError:
        _threads.abandon(job)
        raise


def _called(tool: Tool, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    # No future can carry StopIteration, and SystemExit or KeyboardInterrupt in one would end the
    # event loop: whatever a tool raises leaves its thread as a ToolError.
    try:
        return tool.fn(*args, **kwargs)
    except BaseException as error:
        raise _raised(tool, error) from error


async def _awaited(tool: Tool, start: Callable[[], Awaitable[Any]]) -> Any:
    try:
        return await start()
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # as in `_called`
        raise _raised(tool, error) from error


def _raised(tool: Tool, error: BaseException) -> ToolError:
    return ToolError(f"tool {tool.name} raised {type(error).__name__}: {error}")


def plain_json(value: Any, depth: int = 0) -> Any:
    """A copy of plain JSON data. Raises ValueError naming what is not."""
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        if not math.isfinite(value):
            raise ValueError(f"the float {value}, which JSON cannot hold")
        return value
    if depth > MAX_JSON_DEPTH:
        raise ValueError(f"data nested deeper than {MAX_JSON_DEPTH}")
    if kind is list:
        return [plain_json(item, depth + 1) for item in value]
    if kind is dict:
        for key in value:
            if type(key) is not str:
                raise ValueError(f"a dict with the key {key!r}, which is no str")
        return {key: plain_json(item, depth + 1) for key, item in value.items()}
    raise ValueError(f"a {kind.__name__}")


def own_copy(value: Any) -> Any:
    """Lists, tuples and dicts copied all the way down; changes do not reach the original."""
    if type(value) is list:
        return [own_copy(item) for item in value]
    if type(value) is tuple:
        return tuple([own_copy(item) for item in value])
    if type(value) is dict:
        return {key: own_copy(item) for key, item in value.items()}
    return value


def check_tools(wanted: Mapping[str, str], tools: Mapping[str, Tool]) -> None:
    """Raise ToolError unless every tool of `wanted` (name -> effect) is there with that effect."""
    for name, effect in wanted.items():
        tool = tools.get(name)
        if tool is None:
            known = ", ".join(sorted(tools)) or "none"
            raise ToolError(
                f"tool {name} is not registered (there: {known}); import its module, or pass it "
                "by tools= or --tools"
            )
        if tool.effect != effect:
            raise ToolError(
                f"tool {name} has effect {tool.effect}, the program was compiled with {effect}; "
                "compile it again"
            )
