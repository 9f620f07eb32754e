"""Loops that Python's own values drive: their passes are traced one behind the other.

A pass that may leave does not end the others: its path waits at the end of the loop, and what
follows runs on the paths that are left.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from sgc.trace.control import Control, Scope
from sgc.trace.emit import BREAK, CONTINUE, EXHAUSTED, RETURN
from sgc.trace.log import Path
from sgc.trace.refusal import here, refuse
from sgc.trace.symbol import Spread, Symbol
from sgc_ir.tokens import Arms

if TYPE_CHECKING:
    from sgc.trace.context import Trace
    from sgc.trace.flow import Flow

Body = Callable[..., Any]
MAX_PASSES = 64  # of a loop whose end the run decides
NO_BOUND = "no bound on this loop; write `for _ in s.loop(max=N):` with `break`"


def unroll_for(flow: Flow, iterable: Any, body: Body, other: Body | None) -> Any:
    """`for` over what Python can iterate."""
    trace, control = flow.trace, flow.trace.control
    with _Unrolled(trace) as passes, control.scope(BREAK, EXHAUSTED) as scope:
        items = flow.iterate(iterable)
        for item in items:
            passes[1] += 1
            if type(item) is Spread:
                rest = partial(flow.over, flow.walked(item.value), body)
                code = _one_pass(control, rest)
                if code:
                    return _ended(control, scope, code, None)
                continue
            code = _one_pass(control, partial(body, item))
            if code:
                _check_left(trace, scope, iterable, items)
                return _ended(control, scope, code, None)
        _check_left(trace, scope, iterable, items)
        return _ended(control, scope, None, other)


def unroll_while(flow: Flow, test: Body, body: Body, other: Body | None) -> Any:
    """`while`: a condition that a run decides is a branch in each pass."""
    trace, control = flow.trace, flow.trace.control
    with _Unrolled(trace) as passes, control.scope(BREAK, EXHAUSTED) as scope:
        start, undecided = trace.region.arms, 0
        while True:
            known = flow.decide(test())
            if type(known) is Symbol:
                stays, ends = control.split(known, scope.depth)
                scope.waiting[EXHAUSTED].append(ends)
                control.enter(stays)
            elif not known:
                return _ended(control, scope, None, other)
            undecided += _is_conditional(trace, start)
            if undecided > MAX_PASSES:
                raise refuse(NO_BOUND)
            passes[1] += 1
            code = _one_pass(control, body)
            if code:
                return _ended(control, scope, code, other)


def _is_conditional(trace: Trace, start: Arms) -> bool:
    return trace.region.arms != start


def _one_pass(control: Control, body: Callable[[], Any]) -> Any:
    """One pass; a code when no path goes on to the next."""
    with control.scope(CONTINUE) as scope:
        code = control.guarded(body)
        if code == CONTINUE and not scope.is_left:
            return None
        if not scope.is_left:
            return code
        falls: list[Path] = []
        control.end(code, falls, scope.depth)
        return control.meet([*scope.waiting[CONTINUE], *falls], scope.frame)


def _ended(control: Control, scope: Scope, code: Any, other: Body | None) -> Any:
    """The end of a loop: the paths that broke off, and those that ran `else`, meet."""
    ends = scope.waiting[EXHAUSTED]
    if not scope.is_left:
        if code:
            return None if code == BREAK else code
        return other() if other is not None else None
    falls: list[Path] = []
    if code == RETURN:
        control.leave(RETURN)
    elif code == BREAK:
        falls.append(control.path(scope.depth))
    elif not code:
        ends = [*ends, control.path(scope.depth)]
    if ends:
        control.join(ends, scope.frame)
        code = control.guarded(other) if other is not None else None
        if code in (BREAK, CONTINUE, RETURN):  # of the loop around this one
            control.leave_outer(code, scope)
        elif not code:
            falls.append(control.path(scope.depth))
    return control.meet([*scope.waiting[BREAK], *falls], scope.frame)


def _check_left(trace: Trace, scope: Scope, iterable: Any, items: Any) -> None:
    """An iterator that was left on some paths stands at another place on each."""
    if items is iterable and scope.is_left:
        trace.left_iterators.append(items)


class _Unrolled:
    """Counts the passes of a Python loop, for the message when the program grows too large."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._entry: list[Any] = [here(), 0]

    def __enter__(self) -> list[Any]:
        self._trace.unrolled.append(self._entry)
        return self._entry

    def __exit__(self, *args: object) -> None:
        self._trace.unrolled.pop()
