"""`with` and `finally`: what must run on each path that leaves a body."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sgc.trace.emit import BREAK, CONTINUE, DEAD, RETURN
from sgc.trace.log import Path
from sgc.trace.refusal import refuse
from sgc.trace.symbol import is_stream

if TYPE_CHECKING:
    from sgc.trace.context import Trace
    from sgc.trace.flow import Flow

Body = Callable[..., Any]


def leaving(trace: Trace, body: Callable[[], Any], final: Callable[[], Any]) -> Any:
    """Run `body`, and `final` on each path that leaves it; gives the flow code."""
    control = trace.control
    with control.scope(BREAK, CONTINUE, RETURN) as scope:
        code = body()
        if not scope.is_left:
            return code if code == DEAD else final() or code
        ends: list[tuple[Any, Path]] = []
        if not code or code in scope.catches:
            ends.append((code, control.path(scope.depth)))
        for left, paths in scope.waiting.items():
            ends += [(left, path) for path in paths]
        falls: list[Path] = []
        for left, path in ends:
            control.go(path, scope.frame)
            last = control.guarded(final) or left
            if last in scope.catches:
                control.leave_outer(last, scope)
            elif not last:
                falls.append(control.path(scope.depth))
        return control.meet(falls, scope.frame)


def run_with(flow: Flow, manager: Any, body: Body) -> Any:
    """`with manager as value: body`."""
    enter = flow.trace.runtime.dunder(manager, "__enter__")
    if enter is not None:
        return _with_object(flow, manager, enter, body)
    value = manager.__enter__()
    is_own = is_stream(manager)

    def leave() -> None:
        if not is_own and flow.trace.control.is_open:
            raise refuse(
                "this `with` block is left on some paths only, and its exit is code that is not "
                "compiled; leave it on all of them"
            )
        manager.__exit__(None, None, None)

    return _run(flow, manager.__exit__, leave, lambda: body(value))


def _with_object(flow: Flow, manager: Any, enter: Body, body: Body) -> Any:
    leave = flow.trace.runtime.dunder(manager, "__exit__") or manager.__exit__
    value = enter()

    def final() -> None:
        leave(None, None, None)

    return _run(flow, leave, final, lambda: body(value))


def _run(flow: Flow, leave: Body, final: Callable[[], Any], body: Callable[[], Any]) -> Any:
    trace = flow.trace
    opened = trace.region.arms
    failed: list[Exception] = []

    def tried() -> Any:
        try:
            return body()
        except Exception as error:
            if trace.region.arms != opened:
                return trace.control.guarded(_raise, error)
            failed.append(error)
            return DEAD

    code = leaving(trace, tried, final)
    if not failed:
        return code
    [error] = failed
    if flow.truth(leave(type(error), error, error.__traceback__)):
        return None
    raise error


def _raise(error: Exception) -> Any:
    raise error
