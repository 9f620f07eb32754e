"""Comprehensions and generator expressions: nested stages of targets and conditions, lazily run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sgc.trace.loops import flattened
from sgc.trace.operand import holds_symbol
from sgc.trace.refusal import refuse
from sgc.trace.run_dicts import of_pairs
from sgc.trace.run_loops import run_loop
from sgc.trace.symbol import BIND_ADVICE, KEY, Spread, Symbol
from sgc.trace.walk import Mapped, Walk, as_walk

if TYPE_CHECKING:
    from sgc.trace.context import Trace


@dataclass(frozen=True)
class Stage:
    """One `for target in source if conditions`; the first one's source was evaluated before."""

    source: Callable[[], Any] | None
    put: Callable[[Any], None]
    conditions: tuple[Callable[[], Any], ...]


class TracedGenerator:
    """A generator expression; its elements are made when something consumes it."""

    _sgc_stream = True

    def __init__(
        self, trace: Trace, stages: tuple[Any, ...], element: Callable[[], Any], first: Any
    ) -> None:
        self._trace = trace
        self._stages = [Stage(*stage) for stage in stages]
        self._element = element
        self._first = first
        self._region = trace.region
        self._running: Iterator[Any] | None = None

    @property
    def can_restart(self) -> bool:
        """Whether nothing has been consumed, and another one would give the same elements."""
        is_fixed = type(self._first) in (list, tuple, range, str, dict, Symbol)
        return self._running is None and is_fixed

    def again(self) -> TracedGenerator:
        """Another one of the same elements."""
        stages = tuple((s.source, s.put, s.conditions) for s in self._stages)
        return TracedGenerator(self._trace, stages, self._element, self._first)

    def elements(self) -> Iterator[Any]:
        """Each element; a Spread for those of a run-time list."""
        if self._running is None:
            if self._region is not self._trace.region:
                raise refuse("a generator from outside of the loop is used in its passes")
            self._running = self._run(0, self._first)
        return self._running

    def _run(self, depth: int, source: Any) -> Iterator[Any]:
        trace, stage = self._trace, self._stages[depth]
        is_last = depth + 1 == len(self._stages)
        walk = as_walk(trace, source)
        if walk is not None:
            found = self._loop(depth, walk)
            if found is not None:
                yield Spread(found)
            return
        for item in trace.runtime.iterate(source):
            stage.put(item)
            holds = self._holds(stage)
            if type(holds) is Symbol:
                yield from trace.control.choose(holds, lambda: self._inner(depth), list)
            elif not holds:
                continue
            elif is_last:
                yield self._element()
            else:
                yield from self._next(depth)

    def _next(self, depth: int) -> Iterator[Any]:
        source = self._stages[depth + 1].source
        assert source is not None, "only the first stage has its source evaluated"
        return self._run(depth + 1, source())

    def _inner(self, depth: int) -> list[Any]:
        """The elements of one item of a stage."""
        if depth + 1 == len(self._stages):
            return [self._element()]
        return list(self._next(depth))

    def _holds(self, stage: Stage) -> Any:
        return self._trace.runtime.both(*stage.conditions) if stage.conditions else True

    def _loop(self, depth: int, walk: Walk) -> Symbol | None:
        trace, stage = self._trace, self._stages[depth]
        is_last = depth + 1 == len(self._stages)
        kept: list[Any] = [True]

        def body(item: Any) -> Any:
            stage.put(item)
            kept[0] = self._holds(stage)
            if type(kept[0]) is Symbol:
                return trace.control.choose(kept[0], lambda: self._inner(depth), list)
            if not kept[0]:
                return None
            return self._element() if is_last else list(self._next(depth))

        values = run_loop(trace, walk, body, gives_value=True)
        assert values is not None, "a loop that gives values has a value"
        if type(kept[0]) is not Symbol and not kept[0]:
            return None
        is_flat = is_last and type(kept[0]) is not Symbol
        return values if is_flat else flattened(trace, values)

    def as_walk(self) -> Walk | None:
        """The walk that makes one element a pass, or None where Python iterates."""
        walk = as_walk(self._trace, self._first)
        if walk is None:
            return None
        if len(self._stages) > 1 or self._stages[0].conditions:
            effects = self._trace.effects
            items = list(self.elements())
            if self._trace.effects != effects:
                raise refuse("a generator whose elements have effects; write it as a for loop")
            return as_walk(self._trace, items)
        stage = self._stages[0]

        def element(item: Any) -> Any:
            stage.put(item)
            return self._element()

        return Mapped(self._trace, walk, element)

    def __iter__(self) -> Iterator[Any]:
        return checked(self.elements())

    def __next__(self) -> Any:
        self._trace.runtime.check_iterator(self)
        return next(checked(self.elements()))


def checked(items: Iterator[Any]) -> Iterator[Any]:
    """The items for foreign code, which must not get symbols."""
    for item in items:
        if holds_symbol(item):
            raise refuse(f"an iterator of run-time values is given to foreign code; {BIND_ADVICE}")
        yield item


def materialize(trace: Trace, value: Any) -> Any:
    """A generator or walk as the list of its elements; other values as they are."""
    if isinstance(value, TracedGenerator):
        return list(value.elements())
    if isinstance(value, Walk):
        return trace.runtime.as_list(value)
    return value


def comprehension(
    trace: Trace, kind: str, stages: tuple[tuple[Any, ...], Callable[[], Any]], first: Any
) -> Any:
    """The value of a comprehension, or the generator."""
    generator = TracedGenerator(trace, *stages, first)
    if kind == "generator":
        return generator
    items = list(generator.elements())
    if kind == "list":
        return items
    is_open = any(type(item) is Spread for item in items)
    if kind == "dict" and (is_open or any(holds_symbol(key) for key, _ in items)):
        return of_pairs(trace, items)
    if is_open:
        raise refuse(KEY)
    return set(items) if kind == "set" else dict(items)
