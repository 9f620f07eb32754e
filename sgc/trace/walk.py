"""What a Loop can walk: run-time lists and forks, and zip, enumerate and map over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sgc.trace.family import RunTimeForks
from sgc.trace.form import INT, UNKNOWN, Form
from sgc.trace.lengths import Length, length_of, shortest
from sgc.trace.operand import form_of, holds_spread, holds_symbol, rebuild
from sgc.trace.refusal import refuse
from sgc.trace.run_dicts import settle
from sgc.trace.symbol import Symbol, is_stream, whole
from sgc_ir.graph import Param

if TYPE_CHECKING:
    from sgc.trace.context import Trace
    from sgc.trace.region import Region


class Walk:
    """Run-time values that are walked in step; consumed once, as Python's iterators are.

    `leaves` are the lists and forks; `bind` gives the Python value of one pass.
    """

    _sgc_stream = True  # foreign code must not get one

    def __init__(self, trace: Trace, children: tuple[Walk, ...] = ()) -> None:
        self.trace = trace
        self.children = children
        self.is_consumed = False
        self.region = trace.region

    def leaves(self) -> list[Leaf]:
        return [leaf for child in self.children for leaf in child.leaves()]

    def bind(self, region: Region, items: dict[int, Any]) -> Any:
        """The value of one pass; `items` maps the id of a leaf to its value."""
        raise NotImplementedError

    def length(self) -> Length:
        return shortest([leaf.length() for leaf in self.leaves()])

    def consume(self) -> None:
        """Refuse to walk twice what Python's iterator would give once only."""
        if self.is_consumed or self.region is not self.trace.region:
            raise refuse("an iterator is used a second time; make a list of it first")
        self.is_consumed = True

    @property
    def is_data(self) -> bool:
        """Whether only plain lists are walked."""
        return all(not isinstance(leaf.value, RunTimeForks) for leaf in self.leaves())


class Leaf(Walk):
    """One list or fork."""

    def __init__(self, trace: Trace, value: Any) -> None:
        super().__init__(trace)
        self.value = value

    def leaves(self) -> list[Leaf]:
        return [self]

    def length(self) -> Length:
        if isinstance(self.value, RunTimeForks):
            return self.value.family.length()
        return length_of(self.value)

    def consume(self) -> None:
        """Lists and forks can be walked again."""

    def declare(self, region: Region, name: str) -> Any:
        """The item parameter of a loop's body; gives the value of one pass."""
        if isinstance(self.value, RunTimeForks):
            region.argument(Param(name), INT)
            return self.value.family.branch(region.index)
        form = form_of(self.value).item or UNKNOWN
        symbol = region.argument(Param(name), form)
        return region.index if self._counts_passes() else rebuild(self.trace, symbol)

    def _counts_passes(self) -> bool:
        """Whether it is `range(n)`, whose items are the numbers of the passes."""
        if type(self.value) is not Symbol:
            return False
        node = self.value.region.nodes[self.value.node]
        return node.attrs.get("fn") == "range" and len(node.attrs["args"]) == 1

    def bind(self, region: Region, items: dict[int, Any]) -> Any:
        return items[id(self)]


class Zip(Walk):
    """`zip(...)`."""

    def bind(self, region: Region, items: dict[int, Any]) -> Any:
        return tuple(child.bind(region, items) for child in self.children)


class Enumerate(Walk):
    """`enumerate(walk, start)`."""

    def __init__(self, trace: Trace, child: Walk, start: Any = 0) -> None:
        super().__init__(trace, (child,))
        self.start = start

    def bind(self, region: Region, items: dict[int, Any]) -> Any:
        number: Any = region.index
        if type(self.start) is not int or self.start != 0:
            number = self.trace.expr("+", number, self.start)
        return number, self.children[0].bind(region, items)


class Mapped(Walk):
    """What `fn` makes of each item: a generator expression, or `map`."""

    def __init__(self, trace: Trace, child: Walk, fn: Callable[[Any], Any]) -> None:
        super().__init__(trace, (child,))
        self.fn = fn

    @property
    def is_data(self) -> bool:
        return False

    def bind(self, region: Region, items: dict[int, Any]) -> Any:
        return self.fn(self.children[0].bind(region, items))


def as_walk(trace: Trace, value: Any) -> Walk | None:
    """`value` as something that a Loop walks, or None for what Python itself can iterate."""
    from sgc.trace.generator import TracedGenerator

    if isinstance(value, Walk):
        value.consume()
        return value
    if isinstance(value, TracedGenerator):
        return value.as_walk()
    if isinstance(value, RunTimeForks):
        return Leaf(trace, value)
    if (symbol := whole(settle(trace, value))) is not None:
        return Leaf(trace, trace.expr("list_of", symbol))
    if type(value) is Symbol or holds_spread(value):
        return Leaf(trace, trace.runtime.as_list(value))
    return None


def zipped(trace: Trace, values: tuple[Any, ...]) -> Walk | None:
    """`zip(*values)` where any of them is a run-time value, else None."""
    walks = [as_walk(trace, v) for v in values]
    if not any(walks):
        return None
    filled = [w if w is not None else _constant(trace, v) for w, v in zip(walks, values)]  # noqa: B905
    return Zip(trace, tuple(filled))


def _constant(trace: Trace, value: Any) -> Leaf:
    from sgc.trace.forks import StaticForks

    items = list(value)
    is_fork = isinstance(value, StaticForks)
    if is_fork or (holds_symbol(items) and not all(_is_data(item) for item in items)):
        raise refuse(
            "a fork or list of constant length in step with a run-time list; use "
            "s.fork_each(list), or bind the list"
        )
    return Leaf(trace, items)


def _is_data(value: Any) -> bool:
    form: Form = form_of(value)
    return form.is_data and not is_stream(value)
