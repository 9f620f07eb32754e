"""Runs a loop over run-time values: first as one whose passes hand nothing on, then as any."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sgc.trace.attempts import see_loop
from sgc.trace.carried import CarriedLoop
from sgc.trace.emit import BREAK, CONTINUE, RETURN
from sgc.trace.log import Path
from sgc.trace.loops import Loop
from sgc.trace.refusal import Refusal, place_of, refuse
from sgc.trace.symbol import Symbol
from sgc_ir.errors import CompileError

if TYPE_CHECKING:
    from sgc.trace.context import Trace
    from sgc.trace.walk import Walk


def run_loop(
    trace: Trace, walk: Walk, body: Callable[[Any], Any], gives_value: bool
) -> Symbol | None:
    """Trace `body`, which takes the item of a pass, into a Loop.

    Gives the list of what `body` returned, or None when it gives no value.
    """
    return run_walk(trace, walk, body, gives_value, codes=False)[0]


def run_walk(
    trace: Trace,
    walk: Walk,
    body: Callable[[Any], Any],
    gives_value: bool,
    codes: bool,
    has_pass: bool = False,
) -> tuple[Symbol | None, Any]:
    """The same, and how the loop ended: 0, or a run-time value (1 by break, 2 by return).

    With `codes` the body gives flow codes. Passes that hand nothing on are tried first.
    With `has_pass` there is at least one.
    """
    try:
        return _traced(trace, walk, body, gives_value, codes, has_pass)
    except CompileError:
        raise
    except Exception as error:
        if not trace.control.is_open:
            raise
        place = place_of(error.__traceback__)
        raise CompileError(
            f"{type(error).__name__} in each pass of a loop: {' '.join(str(error).split())}",
            place.file,
            place.line,
        ) from error


def _traced(
    trace: Trace,
    walk: Walk,
    body: Callable[[Any], Any],
    gives_value: bool,
    codes: bool,
    has_pass: bool,
) -> tuple[Symbol | None, Any]:
    plain = Loop(trace, walk, _without_exits(trace, body) if codes else body, gives_value)
    try:
        value = plain.run()
    except Refusal as refusal:
        first: Refusal | None = refusal
    else:
        first = None
        if not plain.hands_on():
            see_loop(trace, plain, value)
            return value, 0
    plain.base.restore()
    loop = CarriedLoop(trace, walk, body, gives_value, codes, has_pass)
    try:
        value = loop.run()
    except Refusal:
        loop.base.restore()
        if first is not None:
            raise
        value = plain.run()
        see_loop(trace, plain, value)
        return value, 0
    see_loop(trace, loop, None)
    return value, loop.kind


def _without_exits(trace: Trace, body: Callable[[Any], Any]) -> Callable[[Any], None]:
    """A body that no path leaves; refuses one that some do."""

    def one_pass(item: Any) -> None:
        control = trace.control
        with control.scope(BREAK, CONTINUE, RETURN) as scope:
            code = control.guarded(body, item)
            if code in (BREAK, RETURN) or scope.waiting[BREAK] or scope.waiting[RETURN]:
                raise refuse("`break` or `return` in a loop over run-time values")
            if not scope.is_left:
                return
            falls: list[Path] = []
            control.end(code, falls, scope.depth)
            control.join([*scope.waiting[CONTINUE], *falls], scope.frame)

    return one_pass
