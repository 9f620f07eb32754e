"""What rewritten code calls as `$R`: control flow, operators, calls, items and texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sgc.trace.calls import Calls
from sgc.trace.family import RunTimeForks
from sgc.trace.flow import Flow
from sgc.trace.generator import TracedGenerator
from sgc.trace.items import Items
from sgc.trace.methods import Methods
from sgc.trace.operand import holds_spread
from sgc.trace.operators import Operators
from sgc.trace.run_loops import run_loop
from sgc.trace.symbol import Spread, is_mark
from sgc.trace.texts import Texts
from sgc.trace.walk import Enumerate, Walk, Zip, as_walk

if TYPE_CHECKING:
    from sgc.trace.context import Trace

_DATA = (list, tuple, dict)


class Runtime(Flow, Operators, Calls, Methods, Items, Texts):
    """One compilation's runtime."""

    _sgc_opaque = True

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._natives = {}

    def is_run_time(self, value: Any) -> bool:
        """Whether `value` is a symbol, or data that holds one directly or deeper."""
        from sgc.trace.operand import holds_symbol

        return is_mark(value) or (type(value) in _DATA and holds_symbol(value))

    def listed(self, value: Any) -> Any:
        """`list(value)`: a native list, with Spreads for run-time stretches."""
        if isinstance(value, TracedGenerator):
            return list(value.elements())
        if isinstance(value, Walk | RunTimeForks):
            return self._listed_walk(value)
        if is_mark(value):
            return [Spread(self.as_list(value))]
        return list(value) if holds_spread(value) else list(self.iterate(value))

    def _listed_walk(self, value: Any) -> list[Any]:
        walk = as_walk(self.trace, value)
        assert walk is not None, "a walk can be walked"
        if isinstance(walk, Zip) and walk.is_data and all(not c.children for c in walk.children):
            made = self.trace.expr("zip", *(leaf.value for leaf in walk.leaves()))
        else:
            made = run_loop(self.trace, walk, lambda item: item, gives_value=True)
        return [Spread(made)]

    def numbered(self, value: Any) -> Walk:
        """Pairs of an item and the number of its pass."""
        return _Numbered(self.trace, self.walked(value))

    def zipped(self, *values: Any) -> Walk:
        """The values in step."""
        return Zip(self.trace, tuple(self.walked(v) for v in values))


class _Numbered(Enumerate):
    def bind(self, region: Any, items: dict[int, Any]) -> Any:
        number, item = super().bind(region, items)
        return item, number
