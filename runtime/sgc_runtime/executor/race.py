"""`sgc.first`: waits for the few of several branches that finish first, and cancels the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sgc_ir.errors import GenerationError, InputError
from sgc_runtime.executor.cell import Cell, as_cell, gather
from sgc_runtime.executor.core import Op, StreamCore
from sgc_runtime.executor.scope import Order
from sgc_runtime.executor.stream import Stream, is_unnamed


@dataclass(frozen=True)
class _First:
    """What the journal knows the choice as: a pure tool that gives the numbers of those chosen."""

    name: str = "sgc.first"
    effect: str = "pure"
    deadline: float | None = None
    retries: int | None = None

    @property
    def fn(self) -> Callable[..., Any]:
        raise NotImplementedError("a choice is made by the runtime")


FIRST = _First()


@dataclass(frozen=True, slots=True)
class Entrant:
    """A branch, or a sub-program, that may be among the first.

    Attributes:
        root: gets its stream once there is one; that and all that began below is what is cancelled.
        done: gets what it gives when it has finished, or fails.
    """

    root: Cell
    done: Cell


def branch_entrant(stream: Stream) -> Entrant:
    """A branch as it is now: it has finished when the variables that it gained are there, which is
    what it gives. Raises ValueError where it has gained none."""
    found = stream.variables.items()
    gained = {n: p.value for n, p in found if n not in stream.inherited and not is_unnamed(n)}
    if not gained:
        raise ValueError(
            f"branch {stream.path} has no variables of its own; name what it generates"
        )
    return Entrant(Cell.of(stream.core), as_cell(gained))


class Race(Op):
    """One choice of `count` among entrants; `result` gets the values of those chosen, in the order
    of the entrants.

    Of those that have finished when the last that was missing is noticed, the ones that stand
    first are chosen. One that fails is not chosen, and its error counts only where too few are
    left: the race then fails with the error of the first that failed.
    """

    __slots__ = ("_ordinal", "result")

    def __init__(self, result: Cell, ordinal: int, source: Any, order: Order) -> None:
        super().__init__(None, source, order)
        self.result = result
        self._ordinal = ordinal

    def path(self, core: StreamCore) -> str:
        return core.child_path("g", self._ordinal, "", core)

    def begin(
        self, core: StreamCore, count: Any, entrants: Sequence[Entrant], reads: Sequence[Cell] = ()
    ) -> None:
        """Wait and choose, unless the row, or the stream that asks, was cancelled.

        `reads` is what the program has read of the entrants before; that is waited for.
        """
        ended = core.ctx.cancelled or core.cut
        if ended is not None:
            self.result.fail(ended)
            return
        core.ctx.enter()
        ready = Cell()
        gather(list(reads), lambda _: ready.set(None))
        core.ctx.spawn(self._run(core, count, entrants, ready), self.path(core), self)

    def refuse(self, core: StreamCore, reason: str) -> None:
        """Fail without a race."""
        self._fail(core, InputError(reason))

    def _fail(self, core: StreamCore, error: Exception) -> None:
        failure = core.wrap(self, error)
        core.ctx.fail(failure, self.order)
        self.result.fail(failure)

    async def _run(
        self, core: StreamCore, count: Any, entrants: Sequence[Entrant], ready: Cell
    ) -> None:
        try:
            await _values([ready])
            check_count(count, len(entrants))
            chosen = await self._chosen(core, count, entrants)
            self._cancel_others(core, entrants, chosen)
            self.result.set(await _values([entrants[i].done for i in chosen]))
        except asyncio.CancelledError as cancelled:
            self.result.fail(core.ctx.cancelled or core.cut or cancelled)
        except _TooFew as few:
            self._lose(core, entrants, few.error)
        except Exception as error:
            self._fail(core, error)
        finally:
            core.ctx.leave()

    def _lose(self, core: StreamCore, entrants: Sequence[Entrant], error: BaseException) -> None:
        """Too few are left: all end, and of their errors one counts, as that of the race."""
        if core.ctx.cancelled is None and core.cut is None:
            self._cancel_others(core, entrants, (), "too few could finish")
            core.ctx.fail(error, self.order)
        self.result.fail(error)

    async def _chosen(self, core: StreamCore, count: int, entrants: Sequence[Entrant]) -> list[int]:
        """Numbers of the entrants that are first, ascending; those of the journal if it has any."""
        log, node, asked = core.ctx.log, self.path(core), (count, len(entrants))
        if log is not None:
            known = log.finished_tool(node, FIRST, asked, {})
            if known is not None:
                return list(known.value)
        chosen = await _first(count, entrants)
        if log is not None:
            await log.begin_tool(node, FIRST, asked, {})
            await log.end_tool(node, FIRST, chosen)
        return chosen

    def _cancel_others(
        self,
        core: StreamCore,
        entrants: Sequence[Entrant],
        chosen: Sequence[int],
        why: str = "others were first",
    ) -> None:
        place = f"sgc.first at {self.source}" if self.source else "sgc.first"
        for i, entrant in enumerate(entrants):
            failed = entrant.done.error
            if i not in chosen:
                entrant.root.then(partial(self._cancel, f"cancelled by {place}: {why}"))
                if failed is not None:
                    core.ctx.lose(failed, self.order)

    def _cancel(self, reason: str, root: Cell) -> None:
        if root.error is not None:
            return
        core: StreamCore = root.value
        error = GenerationError(
            reason,
            program=core.scope.program,
            instance=core.ctx.row,
            node=core.path,
            source=str(self.source) if self.source else None,
        )
        core.ctx.lose(error, self.order)
        cut(core, error)


def check_count(count: Any, among: int) -> None:
    """Raises InputError unless `count` of `among` branches can be first."""
    if type(count) is not int or count < 1:
        raise InputError(f"first({count!r}); give how many are wanted, at least 1")
    if count > among:
        raise InputError(f"first({count}) of {among} branches; ask for no more than there are")


def cut(root: StreamCore, error: GenerationError) -> None:
    """Cancel a branch, or the root of a sub-program, and all that began below it: what waits there,
    calls in flight, and what begins there later fails with `error`. Nothing of it fails the row or
    counts as used, and its backend streams are closed.

    The thread of a tool that has begun goes on, and nobody waits for it.
    """
    ctx = root.ctx
    below = [core for core in ctx.streams if isinstance(core, StreamCore) and core.is_below(root)]
    prefix = root.scope.prefix if root.begins_program else None
    ctx.drop_errors([core.error for core in below if core.error is not None], prefix)
    ops = {id(op) for core in below for op in core.cut_off(error)}
    if root.life is not None:
        root.life.end()
    ctx.cancel_calls({id(core) for core in below}, ops)


class _TooFew(Exception):
    """Too few are left that could still finish."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


async def _values(cells: list[Cell]) -> list[Any]:
    """The values of all cells. Raises _TooFew with the error of the first that failed."""
    future = asyncio.get_running_loop().create_future()
    gather(cells, lambda error: None if future.done() else future.set_result(error))
    error = await future
    if error is not None:
        raise _TooFew(error)
    return [cell.value for cell in cells]


async def _first(count: int, entrants: Sequence[Entrant]) -> list[int]:
    """Numbers of the first `count` entrants that finish, ascending."""
    enough = asyncio.get_running_loop().create_future()
    finished: list[int] = []
    failed: dict[int, BaseException] = {}

    def over(i: int, done: Cell) -> None:
        if done.error is None:
            finished.append(i)
        else:
            failed[i] = done.error
        is_over = len(finished) >= count or len(failed) > len(entrants) - count
        if is_over and not enough.done():
            enough.set_result(None)

    for i, entrant in enumerate(entrants):
        entrant.done.then(partial(over, i))
    await enough
    if len(finished) < count:
        raise _TooFew(failed[min(failed)])
    return sorted(sorted(finished)[:count])
