"""Branches on run-time values: arms are traced one after the other and joined where they meet.

A body gives a flow code (see `sgc.trace.emit`). Where an arm leaves a construct, its path waits in
the scope that catches the code; the end of that scope joins what waits there. One state is alive
at any time.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sgc.trace.emit import BREAK, CONTINUE, DEAD, EXCEPT, FELL, RETURN
from sgc.trace.env import Env
from sgc.trace.log import Contents, Path, put_back, undo
from sgc.trace.refusal import Refusal, here, place_of, refuse
from sgc.trace.symbol import BIND_ADVICE, Poison, Symbol
from sgc.trace.taken import MIXED, MixedError, TracedError
from sgc_ir.errors import CompileError
from sgc_ir.ops import Op

if TYPE_CHECKING:
    from sgc.trace.context import Trace

Body = Callable[[], Any]
_ERROR = "error"
EXITS = (BREAK, CONTINUE, RETURN)
_VALUE = "the value of this condition"


class DeadPath(BaseException):
    """Every path through a call has failed: what follows it is never reached."""


# Names of the tracer's classes in the message of an error that Python itself has raised.
_TRACED = re.compile(
    r"\b(Symbol|SymbolMethod|Spread|Poison|Maybe|TracedState|TracedHandle|TracedGenerator|"
    r"StaticForks|RunTimeForks|Branch|Walk|Leaf|Zip|Enumerate|Mapped)\b"
)
_OWN = frozenset(
    f"sgc.trace.{name}"
    for name in "control context counts facts joining joining_streams log ownership region "
    "snapshot symbol unroll withs".split()
)


def _check_own(error: Exception) -> None:
    """Let no fault of the tracer pass for an error of the program."""
    if isinstance(error, TypeError | AttributeError | ValueError) and _TRACED.search(str(error)):
        raise refuse(
            f"a run-time value was given to code that is not compiled ({error}); {BIND_ADVICE}",
            place=place_of(error.__traceback__),
        ) from error
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    if frame is not None and frame.tb_frame.f_globals.get("__name__") in _OWN:
        shown = f"{type(error).__name__}: {error}"
        raise refuse(f"the tracer failed ({shown}); this is a fault of sgc, report it") from error


class Scope:
    """A construct that paths leave.

    Attributes:
        catches: flow codes that end here.
        depth: number of its frame in the log.
        waiting: code -> paths that have left with it.
    """

    def __init__(self, catches: tuple[int, ...], depth: int, frame: Contents) -> None:
        self.catches = catches
        self.depth = depth
        self.frame = frame
        self.waiting: dict[int, list[Path]] = {code: [] for code in catches}

    @property
    def is_left(self) -> bool:
        """Whether some path has left."""
        return any(self.waiting.values())


class Control:
    """Traces the arms of branches, and joins their paths where they meet.

    Attributes:
        scopes: those that are open, the innermost last.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.scopes: list[Scope] = []
        self.raised = Env({}, trace.log)  # the error of a path that has raised one
        # where the paths of an `if` go that ends an arm: (depth, paths), or None to join them
        self._tails: list[tuple[int, list[Path]] | None] = []

    @property
    def is_open(self) -> bool:
        """Whether what runs now depends on a branch."""
        return self.trace.region.arms is not None

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Inside the block another program is traced, which shares no path with this one."""
        trace = self.trace
        before = self.scopes, self._tails, trace.log.frames, trace.facts.known
        self.scopes, self._tails, trace.log.frames, trace.facts.known = [], [], [], {}
        try:
            yield
        finally:
            self.scopes, self._tails, trace.log.frames, trace.facts.known = before

    # -- paths ------------------------------------------------------------------------------------

    def path(self, depth: int) -> Path:
        """The present state, as far as it differs from the start of frame `depth`."""
        trace = self.trace
        return Path(trace.region.arms, trace.log.written(depth), trace.facts.known)

    def go(self, path: Path, frame: Contents) -> None:
        """Make a path the present one; `frame` is that of its construct, and the innermost."""
        undo(frame)
        for value, content in path.contents.values():
            put_back(value, content)
        self.trace.region.enter(path.arms)
        self.trace.facts.known = path.facts

    def join(self, paths: Sequence[Path], frame: Contents) -> None:
        """Go on where several paths meet."""
        from sgc.trace.joining import Join

        if len(paths) == 1:
            self.go(paths[0], frame)
        else:
            Join(self.trace, paths, frame).run()

    def split(self, test: Symbol, depth: int) -> tuple[Path, Path]:
        """The paths on which `test` is true, and false."""
        trace, region = self.trace, self.trace.region
        node = trace.node(Op.BRANCH, {"cond": trace.operand(test)}, may_fail=False)
        contents, known = trace.log.written(depth), trace.facts.known
        found = []
        for outcome in (True, False):
            trace.facts.known = known
            trace.facts.assume(test, outcome)
            found.append(Path(frozenset([(node, outcome)]), contents, trace.facts.known))
        trace.facts.known = known
        assert region is trace.region, "a condition is recorded in the graph that it decides in"
        return found[0], found[1]

    # -- scopes -----------------------------------------------------------------------------------

    @contextmanager
    def scope(self, *catches: int) -> Iterator[Scope]:
        """A construct that catches some codes."""
        with self.trace.log.frame() as frame:
            scope = Scope(catches, len(self.trace.log.frames) - 1, frame)
            self.scopes.append(scope)
            try:
                yield scope
            finally:
                self.scopes.pop()

    def leave(self, code: int) -> None:
        """The present path leaves with a code: it waits in the scope that catches it."""
        scope = next(s for s in reversed(self.scopes) if code in s.catches)
        scope.waiting[code].append(self.path(scope.depth))

    def leave_outer(self, code: int, inner: Scope) -> None:
        """The present path leaves a scope that would catch the code itself."""
        outer = self.scopes[: self.scopes.index(inner)]
        scope = next(s for s in reversed(outer) if code in s.catches)
        scope.waiting[code].append(self.path(scope.depth))

    def enter(self, path: Path) -> None:
        """Go on with a path that has the present state."""
        self.trace.region.enter(path.arms)
        self.trace.facts.known = path.facts

    def end(self, code: Any, falls: list[Path], depth: int) -> None:
        """A body has ended with `code`: its path goes on in `falls`, waits, or is dead."""
        if code in EXITS:
            self.leave(code)
        elif not code:
            falls.append(self.path(depth))

    def meet(self, paths: Sequence[Path], frame: Contents) -> Any:
        """Join `paths` and go on; gives DEAD when there are none."""
        if not paths:
            return DEAD
        self.join(paths, frame)
        return None

    def guarded(self, body: Callable[..., Any], *args: Any) -> Any:
        """The code of a body; an error under a branch is that of its path, which ends there."""
        try:
            return body(*args)
        except CompileError:
            raise
        except DeadPath:
            if not self.is_open:
                raise
            return DEAD
        except Exception as error:
            if not self.is_open:
                raise
            self.fail(error)
            return DEAD

    def fail(self, error: Exception) -> None:
        """Record that the present path ends with an error."""
        trace = self.trace
        if type(error) is TracedError:
            self.throw(error)
            return
        if type(error) is MixedError:
            raise refuse(MIXED)
        _check_own(error)
        if any(attempt.takes(error) for attempt in trace.guards):
            self._leave_with(error)
            return
        name = type(error).__name__
        is_known = getattr(builtins, name, None) is type(error)
        shown = name if is_known else type(error).__qualname__
        try:
            args = tuple(trace.operand(arg) for arg in error.args)
        except Refusal:
            args = (str(error),)
        place = place_of(error.__traceback__)
        attrs: dict[str, Any] = {"fn": "fail", "args": (shown, *args)}
        if isinstance(error.__cause__, TracedError):
            attrs["kwargs"] = {"cause": trace.operand(error.__cause__.facts)}
        trace.node(Op.EXPR, attrs, may_fail=True, source=place if place.line else here())

    # -- errors that a `try` may take -------------------------------------------------------------

    def throw(self, error: Exception, inner: Scope | None = None) -> None:
        """The present path raises an error of the run, or one that a handler did not take; it
        leaves the scope `inner` with it."""
        if any(attempt.takes(error) for attempt in self.trace.guards):
            self._leave_with(error, inner)
        elif isinstance(error, TracedError):
            error.raise_again()
        else:
            self.fail(error)

    def _leave_with(self, error: Exception, inner: Scope | None = None) -> None:
        attempt = next(a for a in reversed(self.trace.guards) if a.takes(error))
        if attempt.region is not self.trace.region:
            place = place_of(error.__traceback__)
            is_own = not isinstance(error, TracedError)
            raise refuse(
                f"{type(error).__name__ if is_own else 'an error'} is raised in a loop over "
                f"run-time values inside of a `try` (line {attempt.place.line}), which would take "
                "it; put the `try` into the loop",
                place=place if place.line else here(),
            ) from error
        scopes = self.scopes if inner is None else self.scopes[: self.scopes.index(inner)]
        scope = next(s for s in reversed(scopes) if EXCEPT in s.catches)
        scope.waiting[EXCEPT].append(self.path_with(error, scope.depth))

    def path_with(self, error: Exception, depth: int) -> Path:
        """The present state, of a path that has raised an error."""
        self.raised[_ERROR] = error.facts if isinstance(error, TracedError) else error
        path = replace(self.path(depth), error=error)
        self.raised.drop(_ERROR)
        return path

    def take_error(self, paths: Sequence[Path]) -> Exception:
        """The error of `paths`, whose state is the present one."""
        found = self.raised.slots.pop(_ERROR)
        if len(paths) == 1:
            assert paths[0].error is not None, "a path that has raised nothing"
            return paths[0].error
        if type(found) is Symbol:
            origins = {e.origin for p in paths if isinstance(e := p.error, TracedError)}
            return TracedError(self.trace, found, origins.pop() if len(origins) == 1 else "any")
        return MixedError()

    # -- if ---------------------------------------------------------------------------------------

    def branch(self, test: Symbol, then: Body | None, other: Body | None, is_last: bool) -> Any:
        """`if` on a run-time value. With `is_last` it ends an arm, which takes its paths over."""
        log = self.trace.log
        tail = self._tails[-1] if is_last and self._tails else None
        with log.frame() as frame:
            depth = len(log.frames) - 1
            falls: list[Path] = []
            for path, body in zip(self.split(test, depth), (then, other), strict=True):
                self.go(path, frame)
                with self._tail(tail or (depth, falls)):
                    code = self.guarded(body) if body is not None else None
                if not code and tail is not None:
                    tail[1].append(self.path(tail[0]))
                else:
                    self.end(code, falls, depth)
            undo(frame)
            if tail is not None and not falls:
                return FELL
            return self.meet(falls, frame)

    def arm(self, body: Body, is_last: bool) -> Any:
        """Run the arm of an `if` whose condition is known."""
        with self._tail(self._tails[-1] if is_last and self._tails else None):
            return body()

    @contextmanager
    def _tail(self, tail: tuple[int, list[Path]] | None) -> Iterator[None]:
        self._tails.append(tail)
        try:
            yield
        finally:
            self._tails.pop()

    def choose(self, test: Symbol, a: Callable[[], Any], b: Callable[[], Any]) -> Any:
        """The value of a conditional expression whose operands do something, or may fail."""
        result = Env({}, self.trace.log)

        def put(make: Callable[[], Any]) -> Callable[[], None]:
            return lambda: result.__setitem__(_VALUE, make())

        if self.branch(test, put(a), put(b), is_last=False) == DEAD:
            raise DeadPath
        value = result.slots[_VALUE]
        if type(value) is Poison:
            raise refuse(value.why)
        return value

    # -- functions --------------------------------------------------------------------------------

    def function(self, body: Body, slots: Env, name: str) -> None:
        """Run the body of a function; its paths meet at its end, with the value in slot `name`."""
        with self.scope(RETURN) as scope, self._tail(None):
            code = self.guarded(body)
            if not scope.is_left:
                if code == DEAD:
                    raise DeadPath
                return
            if code != DEAD:
                slots[name] = slots.slots.get(name)
                self.leave(RETURN)
            self.join(scope.waiting[RETURN], scope.frame)
