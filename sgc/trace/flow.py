"""Control flow of rewritten code: functions, branches, loops, `with`, `try`, `match`.

Bodies are functions that return a flow code: nothing (went through), BREAK, CONTINUE, RETURN.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from sgc.trace.attempts import TraceAgain, run_try, with_attempt
from sgc.trace.control import DeadPath
from sgc.trace.emit import BREAK, RETURN, RETURN_SLOT
from sgc.trace.env import Env, Frame
from sgc.trace.family import RunTimeForks
from sgc.trace.generator import TracedGenerator, comprehension
from sgc.trace.operand import holds_spread
from sgc.trace.ownership import MISSING
from sgc.trace.patterns import matches
from sgc.trace.refusal import Refusal, refuse
from sgc.trace.run_loops import run_walk
from sgc.trace.snapshot import Snapshot
from sgc.trace.symbol import TRUTH, Maybe, Poison, Spread, Symbol, check_sure, is_mark, whole
from sgc.trace.unroll import MAX_PASSES, unroll_for, unroll_while
from sgc.trace.walk import Walk, as_walk
from sgc.trace.withs import leaving, run_with
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
            self.trace.control.function(body, env, RETURN_SLOT)
        finally:
            self.trace.frames.pop()
        value = env.slots.get(RETURN_SLOT)
        env.drop(RETURN_SLOT)  # else a returned list would have a second name
        return value

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
        known = self.decide(value)
        if type(known) is Symbol:
            raise refuse(TRUTH)
        return bool(known)

    def decide(self, value: Any) -> bool | Symbol:
        """The truth of a value: known now, or a run-time value."""
        if type(value) is Symbol:
            known = self.trace.facts.truth(value)
            return value if known is None else known
        if holds_spread(value):
            return self._truth_of_list(value)
        if (symbol := whole(value)) is not None:
            return self.decide(self.trace.expr("bool", symbol))
        if is_mark(value) or isinstance(value, RunTimeForks):
            raise refuse(value.why if type(value) is Poison else TRUTH)
        if type(value) is dict and value and all(type(v) is Maybe for v in value.values()):
            given = [self.trace.expr("is_set", v.value) for v in value.values()]
            return self.decide(self.trace.expr("or", *given) if len(given) > 1 else given[0])
        found = self.trace.runtime.dunder(value, "__bool__") or self.trace.runtime.dunder(
            value, "__len__"
        )
        return self.decide(found()) if found is not None else bool(value)

    def _truth_of_list(self, value: list[Any]) -> bool | Symbol:
        poison = next((v for v in value if type(v) is Poison), None)
        if poison is not None:
            raise refuse(poison.why)
        if any(type(v) is not Spread for v in value):
            return True
        made = self.trace.expr("bool", value)
        assert type(made) is Symbol, "the truth of a list of run-time length is a symbol"
        return made

    # -- branches and loops -----------------------------------------------------------------------

    def if_(self, test: Any, then: Body | None, other: Body | None, is_last: bool = False) -> Any:
        known = self.decide(test)
        if type(known) is Symbol:
            return self.trace.control.branch(known, then, other, is_last)
        body = then if known else other
        return self.trace.control.arm(body, is_last) if body is not None else None

    def assert_(self, test: Any, message: Body | None) -> Any:
        def failed() -> None:
            raise AssertionError(*([message()] if message is not None else []))

        return self.if_(test, None, failed)

    def raise_(self, error: Any) -> Any:
        """`raise error`; what is raised under a branch ends its path."""
        raise error

    def while_(self, test: Body, body: Body, other: Body | None) -> Any:
        return unroll_while(self, test, body, other)

    def for_(self, iterable: Any, body: Body, other: Body | None) -> Any:
        walk = as_walk(self.trace, iterable)
        if walk is not None:
            return self._walk(walk, body, other)
        if type(iterable) is range and len(iterable) > MAX_PASSES:
            long = self._long(iterable, body)
            if long is not None:
                return self._ended(long, other)
        return unroll_for(self, iterable, body, other)

    def _walk(self, walk: Walk, body: Body, other: Body | None) -> Any:
        """`for` over run-time values: what follows depends on how the loop ended."""
        kind = run_walk(self.trace, walk, body, gives_value=False, codes=True)[1]
        return self._ended(kind, other)

    def _long(self, passes: range, body: Body) -> Any:
        """A long loop that a run may leave, as one body: how it ends. None where it cannot be one,
        or is never left: then it is unrolled."""
        trace = self.trace
        before = Snapshot(trace)
        try:
            numbers = trace.expr("range", passes.start, passes.stop, passes.step)
            walk = as_walk(trace, numbers)
            assert walk is not None, "a run-time list can be walked"
            kind = run_walk(trace, walk, body, gives_value=False, codes=True, has_pass=True)[1]
        except (Refusal, CompileError):
            kind = 0
        if type(kind) is Symbol:
            return kind
        before.restore()
        return None

    def _ended(self, kind: Any, other: Body | None) -> Any:
        def ended() -> Any:
            if other is None:
                return None
            return self.if_(self.trace.runtime.compare("==", kind, 1), None, other)

        return self.if_(self.trace.runtime.compare("==", kind, 2), lambda: RETURN, ended)

    def over(self, walk: Walk, body: Body) -> Any:
        """A stretch of run-time length in a list that is iterated; gives the flow code."""
        kind = run_walk(self.trace, walk, body, gives_value=False, codes=True)[1]

        def ended() -> Any:
            return self.if_(self.trace.runtime.compare("==", kind, 1), lambda: BREAK, None)

        return self.if_(self.trace.runtime.compare("==", kind, 2), lambda: RETURN, ended)

    def each(self, walk: Walk, body: Body) -> None:
        """A loop over run-time values that nothing leaves and whose passes leave no value."""
        run_walk(self.trace, walk, body, gives_value=False, codes=True)

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
        iterator: Iterator[Any] = iter(check_sure(iterable))
        if iterator is iterable:
            self.check_iterator(iterator)
        return iterator

    def check_iterator(self, iterator: Any) -> None:
        """Refuse to go on with an iterator from outside in the passes of a loop, or in an arm."""
        trace = self.trace
        region = trace.region
        if any(left is iterator for left in trace.left_iterators):
            raise refuse(
                "an iterator that a loop has left on some paths only stands at another item on "
                "each; make a list of it before the loop"
            )
        made = next((arms for own, arms in region.iterators if own is iterator), MISSING)
        if region.parent is not None and made is MISSING:
            raise refuse(
                "an iterator from outside of the loop over run-time values is used in its "
                "passes; make a list of it before the loop"
            )
        if region.arms is not None and made != region.arms:
            raise refuse(
                "an iterator is used in one arm of a branch on a run-time value, and stands at "
                "another item in the other; make a list of it before"
            )

    def own_iterator(self, iterator: Any) -> Any:
        """Note an iterator that was made in the current region."""
        if isinstance(iterator, _ITERATORS) or hasattr(iterator, "__next__"):
            self.trace.region.iterators.append((iterator, self.trace.region.arms))
        return iterator

    def comprehension(self, kind: str, stages: Any, first: Any) -> Any:
        return comprehension(self.trace, kind, stages, first)

    # -- with, try, match -------------------------------------------------------------------------

    def with_(self, manager: Any, body: Body) -> Any:
        return run_with(self, manager, body)

    def try_(
        self, body: Body, handlers: tuple[Any, ...], other: Body | None, final: Body | None
    ) -> Any:
        def handled() -> Any:
            return run_try(self.trace, body, handlers, other) if handlers else body()

        if final is None:
            return handled()

        failed: list[BaseException] = []

        def guarded() -> Any:
            try:
                return with_attempt(self.trace, handled)
            except BaseException as error:
                failed.append(error)
                raise

        try:
            return leaving(self.trace, guarded, final)
        except (Refusal, DeadPath, TraceAgain):
            raise
        except BaseException as error:
            if not any(known is error for known in failed):  # it is one of `finally` itself
                raise
            late = final()
            if late:
                return late
            raise

    def match_(self, env: Env, subject: Any, cases: tuple[Any, ...]) -> Any:
        """Patterns in order, as a chain of `if`s; the subject was evaluated once."""
        return self._match(env, subject, cases, is_last=False)

    def _match(self, env: Env, subject: Any, cases: tuple[Any, ...], is_last: bool) -> Any:
        if not cases:
            return None
        (pattern, guard, body), *others = cases
        captures: dict[str, Any] = {}
        fits = matches(self.trace, pattern, subject, captures)

        def rest() -> Any:
            return self._match(env, subject, tuple(others), is_last=True)

        def taken() -> Any:
            env.update(captures)
            if guard is None:
                return body() if body is not None else None
            return self.if_(guard(), body, rest, True)

        return self.if_(fits, taken, rest, is_last)
