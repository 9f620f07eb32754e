"""Loops over run-time lists and forks: the body is traced into a graph of its own.

The body is traced again until it is known what it leaves different: locals that it assigns are
poisoned from the second time on (a read before the assignment is carried state), a list that it
appends to exactly once a pass becomes part of the loop's value, counters of calls become functions
of the pass number. Everything else that it changes outside is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sgc.trace.containers import is_object
from sgc.trace.counts import ZERO, Count
from sgc.trace.entries import may_be_unset
from sgc.trace.env import Env
from sgc.trace.family import BranchStream, RunTimeForks, entry_form
from sgc.trace.form import INT, UNKNOWN, Form
from sgc.trace.operand import form_of
from sgc.trace.operand import walk as walk_values
from sgc.trace.refusal import here, refuse
from sgc.trace.region import Region
from sgc.trace.snapshot import Snapshot
from sgc.trace.symbol import Poison, Spread, Symbol
from sgc.trace.unused import without_unused
from sgc_ir.graph import Graph, Node, Param
from sgc_ir.ops import Op

if TYPE_CHECKING:
    from sgc.trace.context import Trace
    from sgc.trace.walk import Walk

_MAX_TRACES = 16
KINDS = ("g", "f", "c")  # counters of the stream around a loop that its passes may move


class Loop:
    def __init__(
        self, trace: Trace, walk: Walk, body: Callable[[Any], Any], gives_value: bool
    ) -> None:
        self.trace = trace
        self.walk = walk
        self.body = body
        self.gives_value = gives_value
        self.place = here()
        self.outer = trace.region
        self.leaves = walk.leaves()
        over = [trace.operand(_walked(leaf.value)) for leaf in self.leaves]
        self.over = tuple(over)
        self.length = walk.length()
        for kind in KINDS:
            trace.stream.load(kind)
        self.base = Snapshot(trace)
        self.start = {kind: trace.stream.counts[kind] for kind in KINDS}
        self.strides = dict.fromkeys(KINDS, ZERO)
        self.poisoned: set[tuple[int, str]] = set()  # id of an environment, and a name in it
        self.slots: list[tuple[Env, str]] = []
        self.lists: list[list[Any]] = []
        self.stops: dict[int, str] = {}
        self.nodes: list[Node] = []

    def run(self) -> Symbol | None:
        for attempt in range(_MAX_TRACES):
            if attempt:
                self.base.restore()
            region = self._trace_body()
            if self._is_settled(region):
                self.stops, self.nodes = dict(region.stops), region.nodes
                with self.trace.unseen():
                    return self._finish(region)
        raise self.refuse("its passes depend on each other in a way that is not compiled")

    def hands_on(self) -> bool:
        """Whether passes change what was there before, which is poisoned now."""
        return any(name in self.base.content(env) for env, name in self.slots)

    def leaves_more(self) -> bool:
        """Whether the passes do, or leave, anything but their values."""
        return bool(self.lists) or self.hands_on() or self.base.has_made(self.trace)

    def refuse(self, reason: str) -> BaseException:
        return refuse(f"loop over run-time values: {reason}", place=self.place)

    # -- one trace of the body --------------------------------------------------------------------

    def _trace_body(self) -> Region:
        trace = self.trace
        region = Region(trace, f"{self.outer.name}.loop", self.place, self.outer)
        region.index = region.argument(Param("index"), INT)
        region.root_stream = trace.stream
        self._poison()
        passed = Count.of(region.index)
        for kind in KINDS:
            trace.stream.counts[kind] = self.start[kind] + passed * self.strides[kind]
        self.begin = {kind: trace.stream.counts[kind] for kind in KINDS}
        with trace.inside(region):
            items = {
                id(leaf): leaf.declare(region, f"item{i}") for i, leaf in enumerate(self.leaves)
            }
            self.value = self.body(self.walk.bind(region, items))
        return region

    def _poison(self) -> None:
        line = self.place.line
        for env, name in self.slots:
            env.slots[name] = Poison(
                f"`{name}` is first set in a pass of the loop at line {line}, of which there may "
                "be none, or is read before a pass sets it; set it before the loop"
            )
        for items in self.lists:
            items[:] = [
                Poison(
                    f"a list that the loop at line {line} over run-time values appends to is read "
                    "in its passes, and such carried state is not compiled yet; read it after "
                    "the loop"
                )
            ]

    def _is_settled(self, region: Region) -> bool:
        before = len(self.slots), len(self.lists)
        for container, key in list(self.base.changes()):
            self._note_change(container, key)
        strides = {kind: self._stride(region, kind) for kind in KINDS}
        settled = before == (len(self.slots), len(self.lists)) and strides == self.strides
        self.strides = strides
        return settled

    def _note_change(self, container: Any, key: Any) -> None:
        if isinstance(container, Env):
            if (id(container), key) not in self.poisoned:
                self.poisoned.add((id(container), key))
                self.slots.append((container, key))
        elif type(container) is list:
            if not any(items is container for items in self.lists):
                self._check_appended(container, list(self.base.content(container)))
                self.lists.append(container)
        else:
            kind = type(container).__name__
            what = f"attribute {key} of a {kind}" if is_object(container) else f"a {kind}"
            raise self.refuse(
                f"{what} from outside is changed in its passes, and such carried state is not "
                "compiled yet; collect the values with one append a pass to a list"
            )

    def _check_appended(self, items: list[Any], old: list[Any]) -> None:
        same = len(items) == len(old) + 1 and all(map(lambda a, b: a is b, items, old))
        if not same:
            raise self.refuse(
                "a list from outside is changed in its passes other than by one append a pass, "
                "and such carried state is not compiled yet; append once a pass"
            )

    def _stride(self, region: Region, kind: str) -> Count:
        stride = self.trace.stream.counts[kind] - self.begin[kind]
        if any(not symbol.region.encloses(self.outer) for symbol in stride.symbols):
            raise self.refuse(
                "each pass makes another number of calls, so that their numbers are not known; "
                "put the body into a sub-program"
            )
        return stride

    # -- the node ---------------------------------------------------------------------------------

    def _finish(self, region: Region) -> Symbol | None:
        trace = self.trace
        values = self._values()
        with trace.inside(region):
            form = form_of(values)
            attrs = {"value": trace.operand(values), "vars": {}}
            trace.node(Op.RETURN, attrs, may_fail=False)
        graph = Graph(region.name, tuple(region.params), without_unused(region.nodes), self.place)
        attrs = {
            "over": self.over,
            "item_params": tuple(f"item{i}" for i in range(len(self.leaves))),
            "index_param": "index",
            "captures": dict(region.captures),
            **self.outer.after(self._used(region)),
        }
        node = trace.node(
            Op.LOOP, attrs, body=graph, source=self.place, may_fail=self.base.has_effects
        )
        self.outer.passes[node] = self.length
        trace.log.touch(self.outer)
        for key in self._used(region):
            self.outer.order[key] = (node,)
            self.outer.touched[key] = None
        loop = Symbol(self.outer, node, Form("list", form))
        self._leave_streams(region)
        return self._leave_values(loop)

    def _values(self) -> Any:
        """What a pass gives: the body's value, and what it appended."""
        found = [self.value] if self.gives_value else []
        self.nested = [type(items[-1]) is Spread for items in self.lists]
        for items in self.lists:
            if len(items) != 2 or type(items[0]) is not Poison:
                self._check_appended(items, items[:1])
                raise self.refuse("a list from outside is replaced in its passes")
            found.append([items[1]] if type(items[1]) is Spread else items[1])
        self._check_fresh(found)
        return found[0] if len(found) == 1 else tuple(found) or None

    def _check_fresh(self, value: Any) -> None:
        if self.base.knows(value):
            raise self.refuse(
                "each pass gives the same list or object from outside, so that a later change of "
                "one would show in all; give a copy, list(...)"
            )

    def _used(self, region: Region) -> list[Any]:
        """What keeps its program order across loops: forks, and calls of tools with effects."""
        return [*region.touched, *(key for key in region.order if key not in region.touched)]

    def _leave_values(self, loop: Symbol) -> Symbol | None:
        """Restore what the passes changed, and give the lists what was appended."""
        self._poison()
        count = len(self.lists) + self.gives_value
        lists = [loop] if count == 1 else [self._column(loop, i) for i in range(count)]
        value = lists.pop(0) if self.gives_value else None
        for items, appended, nested in zip(self.lists, lists, self.nested, strict=True):
            flat = flattened(self.trace, appended) if nested else appended
            items[:] = [*self.base.content(items), Spread(flat)]
        return value

    def _column(self, loop: Symbol, number: int) -> Symbol:
        """The list of the `number`-th values of all passes."""
        from sgc.trace.run_loops import run_loop
        from sgc.trace.walk import Leaf

        def pick(item: Any) -> Any:
            return item[number]

        found = run_loop(self.trace, Leaf(self.trace, loop), pick, gives_value=True)
        assert found is not None, "a loop that gives values has a value"
        return found

    # -- streams after the loop -------------------------------------------------------------------

    def _leave_streams(self, region: Region) -> None:
        stream = self.trace.stream
        self.trace.log.touch(stream)
        for kind in KINDS:
            stream.counts[kind] = self.start[kind]
            if self.strides[kind] != ZERO:
                total = Count.of(self._num_passes()) * self.strides[kind]
                stream.counts[kind] = self.start[kind] + total
                if isinstance(stream, BranchStream) and not stream.is_pass:
                    self.trace.log.touch(stream.family)
                    stream.family.partial.append((("==", stream.index), kind, total))
        self._leave_families(region)

    def _leave_families(self, region: Region) -> None:
        for branch in list(self.trace.streams):
            if isinstance(branch, BranchStream) and branch.region is region and branch.is_dirty:
                self._leave_branch(branch, region)

    def _leave_branch(self, branch: BranchStream, region: Region) -> None:
        family = branch.family
        self.trace.log.touch(family)
        names = {*branch.variables, ""}
        for other, name in region.foreign_reads:
            if other is family and name in names:
                raise self.refuse(
                    f"variable {name!r} is read from another branch while the passes write it; "
                    "read it in a loop of its own"
                )
        if branch.role != family.role:
            raise self.refuse("a chat turn is opened in a pass and closed in another place")
        is_full = family.length().key == self.length.key
        for kind, count in branch.counts.items():
            self._leave_count(branch, kind, count - branch.begin[kind], is_full)
        for name, entry in branch.variables.items():
            family.wrote(name, entry_form(entry), is_full and not may_be_unset(entry))
        if branch.unnamed:
            even = is_full and family.unnamed is not None
            family.unnamed = (family.unnamed or 0) + branch.unnamed if even else None
        family.version += 1

    def _leave_count(self, branch: BranchStream, kind: str, delta: Count, is_full: bool) -> None:
        family = branch.family
        if delta == ZERO:
            return
        known = all(symbol.region.encloses(family.region) for symbol in delta.symbols)
        if is_full and known:
            family.full[kind] = family.full[kind] + delta
        else:
            test = ("<", self._num_passes())
            family.partial.append((test, kind, delta if known else None))

    def _num_passes(self) -> int | Symbol:
        """Number of passes, as a value of the outermost region that can know it."""
        lengths = {leaf.length().key: leaf.value for leaf in self.leaves}
        with self.trace.inside(_home(self.outer, list(lengths.values()))):
            sizes = [self.trace.runtime.length(value) for value in lengths.values()]
            found = sizes[0] if len(sizes) == 1 else self.trace.expr("min", *sizes)
        assert isinstance(found, int | Symbol), "a length is a number"
        return found


def _home(region: Region, values: list[Any]) -> Region:
    """The innermost region in which one of the values is made."""
    homes = set()
    for value in values:
        if isinstance(value, RunTimeForks):
            homes.add(value.family.width.region)
        homes |= {v.region for v in walk_values(value) if type(v) is Symbol}
    while region not in homes and region.parent is not None:
        region = region.parent
    return region


def flattened(trace: Trace, lists: Symbol) -> Symbol:
    """The items of the lists in a list symbol, one after the other."""
    inner = lists.form.item or UNKNOWN
    joined = trace.expr("sum", lists, [])
    assert isinstance(joined, Symbol), "a sum of lists is a symbol"
    return Symbol(joined.region, joined.node, Form("list", inner.item))


def _walked(value: Any) -> Any:
    """The operand of a leaf: a list, or the fork."""
    return value.family.symbol if isinstance(value, RunTimeForks) else value
