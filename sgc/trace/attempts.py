"""`try` around what a run may fail at: each such node is a Branch, and its error takes a path.

The path on which a node has failed leaves with the locals of that moment. The `try` that is next
collects such paths, and each handler runs once, on all of those that it takes.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import sgc_ir.errors
from sgc.trace.control import DeadPath, Scope
from sgc.trace.emit import DEAD, EXCEPT
from sgc.trace.log import Path, undo
from sgc.trace.refusal import here, refuse
from sgc.trace.symbol import Symbol
from sgc.trace.taken import TracedError
from sgc_ir.errors import CompileError, GenerationError
from sgc_ir.graph import Ref
from sgc_ir.ops import Op

if TYPE_CHECKING:
    from sgc.trace.context import Trace
    from sgc.trace.env import Env
    from sgc.trace.loops import Loop
    from sgc.trace.region import Region

_ALL = (Exception, BaseException)


class Attempt:
    """A `try` whose body is traced.

    Attributes:
        kinds: classes of errors that its handlers take.
    """

    def __init__(self, trace: Trace, kinds: tuple[type, ...]) -> None:
        self.region: Region = trace.region
        self.place = here()
        self.kinds = kinds

    def takes(self, error: Exception) -> bool:
        """Whether an error may end here; of one that the run raises, all that is known."""
        if isinstance(error, TracedError):
            return any(error.may_be(kind) for kind in self.kinds)
        return isinstance(error, self.kinds)


class Handler(NamedTuple):
    """An `except` clause: its classes, its body, and where `as` puts the error."""

    kinds: tuple[type, ...]
    body: Callable[[Any], Any]
    env: Env | None
    name: str | None


# -- nodes that may fail --------------------------------------------------------------------------


def see(trace: Trace, region: Region, node: int, origin: str) -> None:
    """A node was recorded at which Python may stop; `origin` says with what: "call" (a
    GenerationError), "expr" (anything else), "any". Where a `try` may see that, paths part."""
    if trace.takes_errors and origin != "expr":
        trace.partials += 1  # it may fail where the program has taken that error before
    here_seen, outside = _names(trace, region, origin)
    if not here_seen and not outside:
        return
    if trace.trials:
        raise refuse("a `try` sees what this operand does")  # no total operand: a Branch will do
    strict = _strictness(trace) if origin == "any" else ""
    if not trace.takes_errors or len(trace.strict) < len(strict):
        raise TraceAgain(strict)
    if outside:
        region.stops[node] = origin
    if here_seen:
        _part(trace, region, node, origin, here_seen)


def _part(trace: Trace, region: Region, node: int, origin: str, kinds: tuple[str, ...]) -> None:
    attrs = {"cond": Ref(node), "on": "failed", "catch": kinds}
    branch = trace.node(Op.BRANCH, attrs, may_fail=False)
    region.enter(frozenset([(branch, True)]))
    attrs = {"name": "error", "of": Ref(branch), "field": "error"}
    facts = Symbol(region, trace.node(Op.VARIABLE, attrs, may_fail=False))
    trace.control.throw(TracedError(trace, facts, origin, kinds))
    region.enter(frozenset([(branch, False)]))
    region.tried[node] = branch


class TraceAgain(BaseException):
    """A `try` may take what the run raises: the program is to be traced anew, with care for the
    place of each reading, and `strict` in sub-programs, see `Trace.strict`."""

    def __init__(self, strict: str) -> None:
        super().__init__()
        self.strict = strict


def _strictness(trace: Trace) -> str:
    kinds = [kind for attempt in trace.guards for kind in attempt.kinds]
    return "call" if all(kind is GenerationError for kind in kinds) else "every"


def _names(trace: Trace, region: Region, origin: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the classes of errors that may be taken in this graph, and outside of this loop."""
    found: dict[bool, dict[str, None]] = {True: {}, False: {}}
    for attempt in reversed(trace.guards):
        for kind in attempt.kinds:
            if may_raise(origin, kind):
                found[attempt.region is region][name_of(kind, origin)] = None
    if trace.strict and (trace.strict == "every" or origin != "expr") and _in_callee(trace):
        found[region.parent is None]["Exception"] = None
    return tuple(found[True]), tuple(found[False])


def see_loop(trace: Trace, loop: Loop, value: Symbol | None) -> None:
    """A loop was recorded in whose passes a `try` around it may see something fail: it sees the
    whole loop fail, which does nothing else and leaves nothing but its list."""
    stops = loop.stops
    if not stops:
        return
    if value is None or loop.leaves_more() or not _all_used(loop, stops):
        raise refuse(
            "a run-time value is read in a loop over run-time values inside of a `try`, or in a "
            "program whose error a `try` takes, and the loop does more than to make a list of "
            "what it reads; put the `try` into the loop",
            place=loop.place,
        )
    origins = set(stops.values())
    see(trace, value.region, value.node, origins.pop() if len(origins) == 1 else "any")


def _all_used(loop: Loop, stops: Mapping[int, str]) -> bool:
    """Whether a pass fails, that is gives no value, where one of the nodes fails."""
    nodes = loop.nodes
    used: set[int] = set()
    todo = [nodes[-1].id, *(node.id for node in nodes if node.op is Op.BRANCH)]
    while todo:
        at = todo.pop()
        if at not in used:
            used.add(at)
            todo += [ref.node for ref in nodes[at].refs()]
    return all(node in used for node in stops)


def _in_callee(trace: Trace) -> bool:
    region = trace.region
    while region.parent is not None:
        region = region.parent
    return region.name != trace.main


def may_raise(origin: str, kind: type) -> bool:
    """Whether a node may fail with an error of this class."""
    if kind in _ALL:
        return True
    if origin == "call":
        return issubclass(GenerationError, kind)
    known = _is_named(kind)
    if origin == "expr":
        return known and not issubclass(kind, GenerationError)
    return True


def name_of(kind: type, origin: str) -> str:
    """The name by which a run knows a class. Refuses one that it does not know."""
    if not _is_named(kind):
        raise refuse(
            f"what a sub-program raises is taken by `except {kind.__name__}`, a class that no "
            "graph knows; take sgc.ProgramError, or return a value that says so"
        )
    return "Exception" if kind is BaseException else kind.__name__


def _is_named(kind: type) -> bool:
    name = kind.__name__
    return (getattr(builtins, name, None) or getattr(sgc_ir.errors, name, None)) is kind


# -- the statement --------------------------------------------------------------------------------


def run_try(
    trace: Trace, body: Callable[[], Any], given: Sequence[Any], other: Callable[[], Any] | None
) -> Any:
    """`try: body; except ...: ...; else: other`; gives the flow code."""
    handlers = [_handler(*one) for one in given]
    attempt = Attempt(trace, tuple(k for handler in handlers for k in handler.kinds))
    control = trace.control
    with control.scope(EXCEPT) as scope:
        code, raised = _attempted(trace, attempt, body)
        failed, scope.catches = scope.waiting[EXCEPT], ()  # what comes now leaves the statement
        if not failed:
            return _as_in_python(trace, handlers, code, raised, other)
        falls: list[Path] = []
        if isinstance(raised, Exception):
            _route(trace, attempt, raised, scope)
        elif raised is None and code != DEAD:
            code = code or (control.guarded(other) if other is not None else None)
            control.end(code, falls, scope.depth)
        _take(trace, handlers, failed, falls, scope)
        undo(scope.frame)
        return control.meet(falls, scope.frame)


def with_attempt(trace: Trace, body: Callable[[], Any]) -> Any:
    """The body of a `try` that has a `finally`: what fails in it leaves by that."""
    opened = trace.region.arms
    trace.guards.append(Attempt(trace, (Exception,)))
    try:
        return body()
    except CompileError:
        raise
    except Exception as error:
        if trace.region.arms == opened:
            raise
        trace.control.throw(error)
        return DEAD
    finally:
        trace.guards.pop()


def _handler(
    kind: Callable[[], Any] | None, body: Callable[[Any], Any], env: Any, name: str | None
) -> Handler:
    found = Exception if kind is None else kind()
    kinds = found if isinstance(found, tuple) else (found,)
    if not all(isinstance(k, type) for k in kinds):
        raise TypeError("catching classes that do not inherit from BaseException is not allowed")
    return Handler(kinds, body, env, name)


def _attempted(
    trace: Trace, attempt: Attempt, body: Callable[[], Any]
) -> tuple[Any, BaseException | None]:
    """The code of the body, or what it has raised on the present path."""
    trace.guards.append(attempt)
    try:
        return body(), None
    except CompileError:
        raise
    except (Exception, DeadPath) as error:
        return DEAD, error
    finally:
        trace.guards.pop()


def _as_in_python(
    trace: Trace,
    handlers: Sequence[Handler],
    code: Any,
    raised: BaseException | None,
    other: Callable[[], Any] | None,
) -> Any:
    """What follows where nothing may fail in a run."""
    if raised is None:
        return code or (other() if other is not None else None)
    for handler in handlers:
        if isinstance(raised, handler.kinds):
            return _handled(handler, raised)
    raise raised


def _handled(handler: Handler, error: BaseException) -> Any:
    try:
        raise error  # so that a bare `raise` in the handler finds it
    except type(error):
        try:
            return handler.body(error)
        finally:
            if handler.name is not None and handler.env is not None:
                handler.env.drop(handler.name)


def _route(trace: Trace, attempt: Attempt, error: Exception, scope: Scope) -> None:
    """The present path has raised an error of its own."""
    if attempt.takes(error):
        scope.waiting[EXCEPT].append(trace.control.path_with(error, scope.depth))
    else:
        trace.control.fail(error)


def _take(
    trace: Trace,
    handlers: Sequence[Handler],
    failed: Sequence[Path],
    falls: list[Path],
    scope: Scope,
) -> None:
    """Run each handler on the paths that it takes; the others leave the statement."""
    control, left = trace.control, list(failed)
    for handler in handlers:
        taken: list[Path] = []
        rest: list[Path] = []
        for path in left:
            _sort(trace, handler, path, taken, rest, scope)
        left = rest
        if taken:
            control.join(taken, scope.frame)
            error = control.take_error(taken)
            code = control.guarded(_handled, handler, error)
            control.end(code, falls, scope.depth)
    for path in left:
        control.go(path, scope.frame)
        control.throw(control.take_error([path]))


def _sort(
    trace: Trace,
    handler: Handler,
    path: Path,
    taken: list[Path],
    rest: list[Path],
    scope: Scope,
) -> None:
    error = path.error
    if not isinstance(error, TracedError):
        (taken if isinstance(error, handler.kinds) else rest).append(path)
        return
    if error.must_be(handler.kinds):
        taken.append(path)
        return
    kinds = [kind for kind in handler.kinds if error.may_be(kind)]
    if not kinds:
        rest.append(path)
        return
    trace.control.go(path, scope.frame)
    yes, no = trace.control.split(error.is_one_of(kinds), scope.depth)
    taken.append(replace(yes, error=error))
    rest.append(replace(no, error=error))
