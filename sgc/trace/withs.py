"""`with` and `finally`: what must run on each path that leaves a body."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sgc.trace.control import DeadPath, Scope
from sgc.trace.emit import BREAK, CONTINUE, DEAD, EXCEPT, RETURN
from sgc.trace.log import Path
from sgc.trace.refusal import refuse
from sgc.trace.symbol import is_stream
from sgc.trace.taken import TracedError

if TYPE_CHECKING:
    from sgc.trace.context import Trace
    from sgc.trace.flow import Flow

Body = Callable[..., Any]
_MANAGER = (
    "a run-time value that may fail is read in a `with` block inside of a `try`, and the exit of "
    "the block would be asked about its error; put the `try` into the block"
)


def leaving(
    trace: Trace, body: Callable[[], Any], final: Callable[[], Any], failed: Body | None = None
) -> Any:
    """Run `body`, and `final` on each path that leaves it (`failed` on one that an error leaves);
    gives the flow code."""
    control = trace.control
    with control.scope(BREAK, CONTINUE, RETURN, EXCEPT) as scope:
        try:
            code = body()
        except DeadPath:
            if not scope.is_left:
                raise
            code = DEAD
        if not scope.is_left:
            return code if code == DEAD else final() or code
        falls: list[Path] = []
        ends = _ends(trace, scope, code)
        codes, scope.catches = scope.catches, ()  # what `final` leaves by goes further out
        for left, path in ends:
            control.go(path, scope.frame)
            error = None if path.error is None else control.take_error([path])
            last = control.guarded(final if error is None or failed is None else failed) or left
            if last == EXCEPT and error is not None:
                control.throw(error, scope)
            elif last in codes:
                control.leave_outer(last, scope)
            elif not last:
                falls.append(control.path(scope.depth))
        return control.meet(falls, scope.frame)


def _ends(trace: Trace, scope: Scope, code: Any) -> list[tuple[Any, Path]]:
    """The paths that leave, each with its code."""
    ends: list[tuple[Any, Path]] = []
    if not code or code in scope.catches:
        ends.append((code, trace.control.path(scope.depth)))
    for left, paths in scope.waiting.items():
        ends += [(left, path) for path in paths]
    return ends


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

    def failed() -> None:
        if not is_own:
            raise refuse(_MANAGER)
        manager.__exit__(TracedError, None, None)

    return _run(flow, manager.__exit__, leave, failed, lambda: body(value))


def _with_object(flow: Flow, manager: Any, enter: Body, body: Body) -> Any:
    leave = flow.trace.runtime.dunder(manager, "__exit__") or manager.__exit__
    value = enter()

    def final() -> None:
        leave(None, None, None)

    def failed() -> None:
        raise refuse(_MANAGER)

    return _run(flow, leave, final, failed, lambda: body(value))


def _run(
    flow: Flow, leave: Body, final: Callable[[], Any], lost: Body, body: Callable[[], Any]
) -> Any:
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

    code = leaving(trace, tried, final, lost)
    if not failed:
        return code
    [error] = failed
    if flow.truth(leave(type(error), error, error.__traceback__)):
        return None
    raise error


def _raise(error: Exception) -> Any:
    raise error
