"""Control flow of rewritten code: functions, branches, loops, `with`, `try`, `match`.

Bodies are functions that return a flow code: nothing (went through), BREAK, CONTINUE, RETURN.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from sgc.trace.emit import BREAK, CONTINUE, RETURN, RETURN_SLOT
from sgc.trace.env import Env, Frame
from sgc.trace.family import RunTimeForks
from sgc.trace.generator import TracedGenerator, comprehension
from sgc.trace.loops import run_loop
from sgc.trace.operand import holds_spread
from sgc.trace.patterns import matches
from sgc.trace.refusal import Refusal, here, refuse
from sgc.trace.symbol import TRUTH, Poison, Spread, is_mark
from sgc.trace.walk import Walk, as_walk
from sgc_ir.errors import CompileError

if TYPE_CHECKING:
    from sgc.trace.context import Trace

Body = Callable[..., Any]
_ITERATORS = (types.GeneratorType, zip, enumerate, map, filter, reversed)


class Flow:
    """The part of the runtime that rewritten statements call."""

    trace: Trace

    # -- functions --------------------------------------------------------------------------------

    def env(self, slots: dict[str, Any]) -> Env:
        """An environment for a call."""
        return Env(slots, self.trace.log)

    def run(self, env: Env, body: Body) -> Any:
        """Run a function's body; gives its return value."""
        if not self.trace.is_active:
            raise refuse("a function of an earlier compilation is called; define it anew")
        self.trace.frames.append(Frame(None, env))
        try:
            body()
        finally:
            self.trace.frames.pop()
        return env.slots.get(RETURN_SLOT)

    def define(
        self, native: Any, name: str, defaults: tuple[Any, ...], keywords: Any, doc: str | None
    ) -> Any:
        """A local function, as Python would make it."""
        native.__name__ = name
        native.__qualname__ = f"<locals>.{name}"
        native.__doc__ = doc
        native.__defaults__ = defaults or None
        native.__kwdefaults__ = keywords or None
        return native

    # -- truth ------------------------------------------------------------------------------------

    def truth(self, value: Any) -> bool:
        """`bool(value)`, known now. Refuses the truth of run-time values."""
        if is_mark(value) or holds_spread(value) or isinstance(value, RunTimeForks):
            raise refuse(value.why if type(value) is Poison else TRUTH)
        found = self.trace.runtime.dunder(value, "__bool__") or self.trace.runtime.dunder(
            value, "__len__"
        )
        return self.truth(found()) if found is not None else bool(value)

    # -- branches and loops -----------------------------------------------------------------------

    def if_(self, test: Any, then: Body | None, other: Body | None) -> Any:
        body = then if self.truth(test) else other
        return body() if body is not None else None

    def assert_(self, test: Any, message: Body | None) -> None:
        if not self.truth(test):
            raise AssertionError(*([message()] if message is not None else []))

    def while_(self, test: Body, body: Body, other: Body | None) -> Any:
        with _Unrolled(self.trace) as passes:
            while self._holds(test()):
                passes[1] += 1
                code = body()
                if code == BREAK:
                    return None
                if code == RETURN:
                    return code
        return other() if other is not None else None

    def _holds(self, test: Any) -> bool:
        if is_mark(test) and type(test) is not Poison:
            raise refuse(
                "the bound of this `while` is decided at run time, and such loops are not "
                "compiled yet; write `for _ in s.loop(max=N):` with a constant bound, or run it "
                'with mode="interpreted"'
            )
        return self.truth(test)

    def for_(self, iterable: Any, body: Body, other: Body | None) -> Any:
        walk = as_walk(self.trace, iterable)
        if walk is not None:
            self.each(walk, body)
            return other() if other is not None else None
        with _Unrolled(self.trace) as passes:
            for item in self.iterate(iterable):
                passes[1] += 1
                if type(item) is Spread:
                    self.each(self.walked(item.value), body)
                    continue
                code = body(item)
                if code == BREAK:
                    return None
                if code == RETURN:
                    return code
        return other() if other is not None else None

    def each(self, walk: Walk, body: Body) -> None:
        """A loop over run-time values whose passes leave no value."""

        def one_pass(item: Any) -> None:
            code = body(item)
            if code not in (None, CONTINUE):
                raise refuse(
                    "`break` or `return` in a loop over run-time values is not compiled yet; "
                    'bind the list, or run it with mode="interpreted"'
                )

        run_loop(self.trace, walk, one_pass, gives_value=False)

    def walked(self, value: Any) -> Walk:
        """A run-time value as a walk."""
        walk = as_walk(self.trace, value)
        assert walk is not None, "a run-time value can be walked"
        return walk

    def iterate(self, iterable: Any) -> Iterator[Any]:
        """The items of what Python can iterate."""
        if isinstance(iterable, TracedGenerator):
            return iterable.elements()
        found = self.trace.runtime.dunder(iterable, "__iter__")
        if found is not None:
            return self.iterate(found())
        iterator: Iterator[Any] = iter(iterable)
        if iterator is iterable:
            self.check_iterator(iterator)
        return iterator

    def check_iterator(self, iterator: Any) -> None:
        """Refuse to go on with an iterator from outside in the passes of a loop."""
        region = self.trace.region
        is_own = any(own is iterator for own in region.iterators)
        if region.parent is not None and not is_own:
            raise refuse(
                "an iterator from outside of the loop over run-time values is used in its "
                "passes; make a list of it before the loop"
            )

    def own_iterator(self, iterator: Any) -> Any:
        """Note an iterator that was made in the current region."""
        if isinstance(iterator, _ITERATORS) or hasattr(iterator, "__next__"):
            self.trace.region.iterators.append(iterator)
        return iterator

    def comprehension(self, kind: str, stages: Any, first: Any) -> Any:
        return comprehension(self.trace, kind, stages, first)

    # -- with, try, match -------------------------------------------------------------------------

    def with_(self, manager: Any, body: Body) -> Any:
        enter = self.trace.runtime.dunder(manager, "__enter__")
        if enter is not None:
            return self._with_object(manager, enter, body)
        with manager as value:
            return body(value)
        return None  # the manager took an exception

    def _with_object(self, manager: Any, enter: Body, body: Body) -> Any:
        leave = self.trace.runtime.dunder(manager, "__exit__") or manager.__exit__
        value = enter()
        try:
            code = body(value)
        except Exception as error:
            if not self.truth(leave(type(error), error, error.__traceback__)):
                raise
            return None
        leave(None, None, None)
        return code

    def try_(
        self, body: Body, handlers: tuple[Any, ...], other: Body | None, final: Body | None
    ) -> Any:
        if final is None:
            return self._handled(body, handlers, other)
        try:
            with _Guard(self.trace):
                code = self._handled(body, handlers, other)
        except Refusal:
            raise
        except BaseException:
            late = final()
            if late:
                return late
            raise
        return final() or code

    def _handled(self, body: Body, handlers: tuple[Any, ...], other: Body | None) -> Any:
        if not handlers:
            return body()
        try:
            with _Guard(self.trace):
                code = body()
        except CompileError:
            raise
        except Exception as error:
            return self._handle(error, handlers)
        return code or (other() if other is not None else None)

    def _handle(self, error: Exception, handlers: tuple[Any, ...]) -> Any:
        for kind, body, env, name in handlers:
            if kind is not None and not isinstance(error, kind()):
                continue
            try:
                return body(error)
            finally:
                if name is not None:
                    env.drop(name)
        raise error

    def match_(self, env: Env, subject: Any, cases: tuple[Any, ...]) -> Any:
        for pattern, guard, body in cases:
            captures: dict[str, Any] = {}
            if not matches(self.trace, pattern, subject, captures):
                continue
            env.update(captures)
            if guard is None or self.truth(guard()):
                return body() if body is not None else None
        return None


class _Guard:
    """While it is open, run-time values may not be read: a handler would see their errors."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __enter__(self) -> None:
        self._trace.guards.append(here())

    def __exit__(self, *args: object) -> None:
        self._trace.guards.pop()


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
