"""Branches of a fork whose width a run decides: one traced body stands for all of them.

The family knows what any branch knows: variables from before the fork, names that loops have
written since, and how far the counters of a branch have come, as a function of its index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sgc.lang.primitives import Primitive
from sgc.trace.counts import ZERO, Count
from sgc.trace.entries import Given, Written, check_gathered, may_be_unset
from sgc.trace.form import UNKNOWN, Form
from sgc.trace.lengths import Length, length_of, number_of
from sgc.trace.operand import form_of, holds_spread
from sgc.trace.refusal import refuse
from sgc.trace.state import TracedState
from sgc.trace.stream import OUTSIDE, Stream
from sgc.trace.symbol import Symbol, is_mark
from sgc_ir.graph import Ref
from sgc_ir.ops import Op
from sgc_runtime.executor.stream import is_unnamed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sgc.trace.region import Region

_UNEVEN = (
    "the branches of this fork have counted differently, by an amount that only a run knows; "
    "do it in a sub-program of its own"
)


class Family:
    """A fork of run-time width.

    Attributes:
        symbol: the fork.
        written: name -> form of the variables that branches have written since the fork.
        full: counters of a branch; `partial` holds (test, kind, count) for some branches only.
        version: grows whenever several branches may have changed at once.
    """

    _sgc_opaque = True
    _sgc_fields = (
        "written", "sure", "full", "partial", "unnamed", "is_joined", "version", "branches",
    )  # fmt: skip

    def __init__(self, parent: Stream, node: int, width: Symbol, items: Any) -> None:
        self.trace = parent.trace
        self.parent = parent
        self.region: Region = self.trace.region
        self.symbol = Symbol(self.region, node, Form("fork"))
        self.width = width
        self.items = items
        self.base = dict(parent.variables)
        self.role = parent.role
        self.written: dict[str, Form] = {}
        self.sure: dict[str, None] = {}  # names that every branch has, if there is any branch
        self.full: dict[str, Count] = {"g": ZERO, "f": ZERO, "c": ZERO}
        self.partial: list[tuple[Any, str, Count | None]] = []
        self.unnamed: int | None = 0
        self.is_joined = False
        self.version = 0
        self.branches: dict[Any, Branch] = {}
        self.trace.families.append(self)

    @staticmethod
    def of_width(stream: Stream, width: Symbol) -> Family:
        """`s.fork(width)`."""
        trace = stream.trace
        stream.store()
        ordinal = stream.take("f").lower(trace)
        node = stream.add(Op.FORK, {"ordinal": ordinal, "width": trace.operand(width)})
        return Family(stream, node, width, None)

    @staticmethod
    def of_items(stream: Stream, items: Any) -> Family:
        """`s.fork_each(items)`."""
        trace = stream.trace
        stream.store()
        ordinal = stream.take("f").lower(trace)
        listed = trace.runtime.as_list(items)
        width = trace.expr("len", listed)
        node = stream.add(Op.FORK, {"ordinal": ordinal, "items": trace.operand(listed)})
        return Family(stream, node, width, listed)

    @property
    def made_by(self) -> tuple[Region, int]:
        """The graph and the node of the fork."""
        return self.region, self.symbol.node

    def length(self) -> Length:
        """Number of branches."""
        return number_of(self.width) if self.items is None else length_of(self.items)

    def branch(self, index: Any) -> Branch:
        """Branch `index` as it is seen from the current region."""
        region = self.trace.region
        if type(index) is Symbol and region.is_pass_number(index):
            index = region.index
        if isinstance(index, int) and index < 0:
            index = self.trace.expr("+", self.width, index)
        key = (region.number, index.key if type(index) is Symbol else index)
        found = self.branches.get(key)
        if found is None:
            self.trace.log.touch(self)
            found = self.branches[key] = Branch(self, BranchStream(self, index))
        return found

    def wrote(self, name: str, form: Form, is_sure: bool = False) -> None:
        """Some branches have written `name`; all of them for certain if `is_sure`."""
        self.trace.log.touch(self)
        if is_sure:
            self.sure[name] = None
        old = self.written.get(name)
        if old is None and name in self.base:
            old = UNKNOWN
        self.written[name] = form if old is None or old == form else UNKNOWN

    def count(self, kind: str, index: Any) -> Count:
        """The next ordinal of a kind in branch `index`."""
        total = self.full[kind]
        for test, of_kind, amount in self.partial:
            if of_kind != kind:
                continue
            if amount is None:
                raise refuse(_UNEVEN)
            total = total + self._part(test, index, amount)
        return total

    def _part(self, test: Any, index: Any, amount: Count) -> Count:
        op, bound = test
        if op == "==" and isinstance(index, int) and isinstance(bound, int):
            return amount if index == bound else ZERO
        holds = self.trace.expr(op, index, bound)
        return Count.of(self.trace.expr("if", holds, 1, 0)) * amount


class BranchStream(Stream):
    """The stream of one branch of a family, seen from one region."""

    _sgc_fields = (*Stream._sgc_fields, "_opener", "_version", "begin", "is_dirty")

    def __init__(self, family: Family, index: Any) -> None:
        self.family = family
        self.index = index
        shown = index if isinstance(index, int) else "..."
        super().__init__(family.trace, family.trace.region, -1, f"branch [{shown}]")
        self.is_pass = type(index) is Symbol and self.region.is_pass_number(index)
        self.inherited = dict(family.base)
        self._version = -1
        self._open()

    @property
    def opener(self) -> int:
        if self._version != self.family.version:
            self._open()
        return self._opener

    def _open(self) -> None:
        """Take hold of the branch as it is now."""
        family = self.family
        self.trace.log.touch(self)
        self._version = family.version
        self.variables = {}
        self.counts = {}
        self.begin: dict[str, Count] = {}  # counters as they were
        self.is_dirty = False
        self.role = family.role
        attrs = {"fork": self.region.lift(family.symbol), "index": self._index_operand()}
        self._opener = self.trace.node(Op.GET_FORK_ITEM, attrs, region=self.region)
        self.region.touched[family.symbol.key] = None

    def _index_operand(self) -> Any:
        return self.index if isinstance(self.index, int) else self.region.lift(self.index)

    # -- writing ----------------------------------------------------------------------------------

    def check_open(self) -> None:
        family = self.family
        if family.is_joined:
            raise refuse("this branch was joined; append to the parent, or before the join")
        if self.region is not self.trace.region:
            raise refuse(OUTSIDE)
        is_constant = isinstance(self.index, int) and self.region is family.region
        if not is_constant and not (self.is_pass and self.region.parent is family.region):
            raise refuse(
                "a branch is changed that is not the one of this pass; iterate the forks "
                "themselves, or a range of their number"
            )
        self.opener  # noqa: B018  (takes hold of the branch anew where loops have changed it)

    def add(self, op: Op, attrs: Mapping[str, Any], may_fail: bool | None = None) -> int:
        node = super().add(op, attrs, may_fail)
        self.is_dirty = True
        return node

    def take(self, kind: str) -> Count:
        self.load(kind)
        if not self.is_pass and self.region is self.trace.region:
            self.trace.log.touch(self.family)
            self.family.partial.append((("==", self.index), kind, Count.of(1)))
        return super().take(kind)

    def load(self, kind: str) -> None:
        if kind not in self.counts:
            self.trace.log.touch(self)
            with self.trace.inside(self.region):
                self.counts[kind] = self.begin[kind] = self.family.count(kind, self.index)

    def next_name(self) -> str:
        if not self.is_pass or self.family.unnamed is None:
            raise refuse("an unnamed gen or select in one branch of many; give it a name")
        self.trace.log.touch(self)
        self.unnamed = (self.unnamed or 0) + 1
        return f"_{self.family.unnamed + self.unnamed}"

    def write(self, name: str, entry: Any) -> None:
        self.trace.log.touch(self)
        self.variables[name] = entry
        if not self.is_pass:
            self.family.wrote(name, entry_form(entry))

    def set(self, name: Any, value: Any) -> None:
        super().set(name, value)
        self.store_one(name, self.variables[name].value)
        self.trace.effects += 1
        self.is_dirty = True

    # -- reading ----------------------------------------------------------------------------------

    def entry(self, name: str) -> Any:
        family = self.family
        opener = self.opener
        if name in self.variables:
            return self.variables[name]
        if name in family.written:
            self._note_read(name)
            is_sure = name in family.sure or self._inherits(name)
            return Written(self.region, opener, family.written[name], not is_sure)
        if family.trace.region is not self.region or not self.is_pass:
            self._note_read(name)
        return family.base.get(name)

    def _inherits(self, name: str) -> bool:
        base = self.family.base
        return name in base and not may_be_unset(base[name])

    def whole(self, field: str) -> Symbol:
        self._note_read("")
        return super().whole(field)

    def _note_read(self, name: str) -> None:
        """Loops that write this variable must not read it from another branch meanwhile."""
        region: Region | None = self.trace.region
        if self.is_pass and region is self.region:
            return
        while region is not None and region is not self.family.region:
            region.foreign_reads.append((self.family, name))
            region = region.parent


def may_be_list(symbol: Symbol) -> bool:
    """Whether a run-time value could be a list, whose items go to one branch each."""
    return symbol.form.kind in ("", "list", "tuple")


def entry_form(entry: Any) -> Form:
    """Form of the value of a variable."""
    if isinstance(entry, Written):
        return entry.form
    return form_of(entry.value) if isinstance(entry, Given) else Form("list")


class Branch(TracedState):
    """A branch of run-time width."""

    stream_: BranchStream

    def __init__(self, family: Family, stream: BranchStream) -> None:
        super().__init__(stream)
        self.family = family

    @property
    def index(self) -> Any:
        """Its number: constant, or a symbol."""
        return self.stream_.index

    @property
    def item(self) -> Any:
        """The item of a branch of `fork_each`."""
        if self.family.items is None:
            raise refuse("item: this is no branch of fork_each; read it from those only")
        trace = self.family.trace
        return trace.runtime.item(self.family.items, self.index)


class RunTimeForks:
    """`forks[i]`, iteration, `len`, `forks += x` and `forks.join(mode)` of run-time width."""

    _sgc_stream = True

    def __init__(self, family: Family) -> None:
        self.family = family

    def __len__(self) -> int:
        raise refuse("the number of branches is decided at run time; ask for it by len(...)")

    def __iter__(self) -> Any:
        raise refuse("branches of run-time number are iterated by code that is not compiled")

    def __getitem__(self, index: Any) -> Branch:
        known = isinstance(index, int) and not isinstance(index, bool)
        if type(index) is not Symbol and not known:
            raise refuse(f"forks[{index!r}]: branches are found by number; iterate for several")
        return self.family.branch(index)

    def __setitem__(self, index: Any, state: Any) -> None:
        if self[index] is not state:
            raise refuse("a branch cannot be replaced; append to it with `forks[i] += ...`")

    def __iadd__(self, x: Any) -> RunTimeForks:
        trace = self.family.trace
        if holds_spread(x) or (type(x) is Symbol and x.form.kind in ("list", "tuple")):
            self._append_each(x)
        elif type(x) is Symbol and may_be_list(x):
            raise refuse(
                "forks += a run-time value that may be a list; append to each branch in a loop, "
                "or annotate the argument's type"
            )
        elif isinstance(x, list | tuple):
            raise refuse(
                f"forks += a list of {len(x)} for branches of run-time number; "
                "append in a loop over zip(forks, ...)"
            )
        else:
            is_function = callable(x) and not isinstance(x, Primitive) and not is_mark(x)

            def append(item: Any) -> None:
                branch, index = item
                branch.extend(trace.runtime.call(x, index) if is_function else x)

            trace.runtime.each(trace.runtime.numbered(self), append)
        return self

    def _append_each(self, values: Any) -> None:
        trace = self.family.trace
        length = length_of(values)
        if length.key != self.family.length().key:
            raise refuse(
                "forks += a list whose length may differ from the number of branches; "
                "append in a loop over zip(forks, ...)"
            )

        def append(item: Any) -> None:
            branch, part = item
            branch.extend(part)

        trace.runtime.each(trace.runtime.zipped(self, values), append)

    def join(self, mode: str = "gather") -> None:
        """Merge the branches into the parent."""
        from sgc.trace.forks import check_mode

        family = self.family
        check_mode(mode, family.is_joined)
        family.parent.check_open()
        region = family.region
        attrs = {"fork": Ref(family.symbol.node), "mode": mode}
        node = family.parent.add(Op.JOIN, attrs)
        family.trace.log.touch(family)
        family.is_joined = True
        if mode == "gather":
            for name, form in family.written.items():
                check_gathered(name, family.base.get(name))
                if name not in family.base and not is_unnamed(name):
                    is_sure = family.items is None and name in family.sure
                    entry = Written(region, node, Form("list", form), not is_sure)
                    family.parent.write(name, entry)
