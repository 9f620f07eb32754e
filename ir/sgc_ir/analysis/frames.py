"""State of a graph that is followed with the values that are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from sgc_ir.analysis.conditions import Condition, Conditions
from sgc_ir.analysis.known_calls import KnownCall, Setting
from sgc_ir.analysis.known_stream import KnownStream
from sgc_ir.analysis.spans import Spans
from sgc_ir.graph import ROOT_STREAM, Graph, Node, Program, Ref, map_refs


class Broken:
    """Value of a node that cannot be computed in this row."""

    __slots__ = ()


BROKEN = Broken()


@dataclass(slots=True)
class Family:
    """A fork; `width` None where the run decides it.

    Attributes:
        base: the stream as it was at the fork.
        branches: those that were opened, by index; `*` for one whose index is not known.
    """

    base: KnownStream
    path: str
    width: int | None
    items: Any = None
    branches: dict[int | str, KnownStream] = field(default_factory=dict)

    def branch(self, index: Any) -> KnownStream | None:
        """Branch `index`, None where there is none."""
        known = isinstance(index, int)
        if known and self.width is not None and not -self.width <= index < self.width:
            return None
        key: int | str = index if known else "*"
        if isinstance(key, int) and key < 0 and self.width is not None:
            key += self.width
        found = self.branches.get(key)
        if found is None:
            item = self._item(key)
            found = self.branches[key] = self.base.branch(f"{self.path}[{key}]", item)
        return found

    def _item(self, key: int | str) -> Any:
        if isinstance(self.items, list | tuple) and isinstance(key, int):
            return self.items[key]
        return self.items if self.items is None or key != "*" else None


@dataclass(slots=True)
class Gathered:
    """What a join made of the branches' variables."""

    variables: Mapping[str, Any]


@dataclass(slots=True)
class LoopResult:
    """Values of a loop's passes, and what it leaves."""

    values: Any
    outputs: Mapping[str, Any]
    kind: Any


@dataclass(slots=True)
class Frame:
    """One graph of one row, or one pass of a loop.

    Attributes:
        base: condition under which the whole of it runs.
        arms: node id -> arm -> condition under which it arrives, None: never. For branches and
            merges.
        repeats: it stands for any number of passes.
        waits: calls that decide whether it runs.
        result, variables, kind: what its Return gives.
        calls: numbers of the calls that were made in it.
    """

    number: int
    graph: Graph
    root: KnownStream
    params: Mapping[str, Any]
    base: Condition
    waits: frozenset[int]
    repeats: bool = False
    depth: int = 0
    values: dict[int, Any] = field(default_factory=dict)
    arms: dict[int, dict[bool, Condition | None]] = field(default_factory=dict)
    arm_waits: dict[int, frozenset[int]] = field(default_factory=dict)
    result: Any = None
    variables: Mapping[str, Any] = field(default_factory=dict)
    kind: Any = 0
    calls: range = range(0)

    def condition(self, node: Node) -> Condition | None:
        """Under which the node runs; None: it does not."""
        if node.control is None:
            return self.base
        at, arm = node.control
        return self.arms[at].get(arm)

    def waits_of(self, node: Node) -> frozenset[int]:
        """Calls that decide whether the node runs."""
        if node.control is None:
            return self.waits
        return self.waits | self.arm_waits.get(node.control[0], frozenset())

    def stream(self, node: Node) -> KnownStream | None:
        """None where the branch could not be opened."""
        if node.stream == ROOT_STREAM:
            return self.root
        found = self.values.get(node.stream)
        return found if isinstance(found, KnownStream) else None

    def operand(self, value: Any) -> Any:
        """The operand with the values of its references."""
        return map_refs(value, self._read)

    def _read(self, ref: Ref) -> Any:
        found = self.values.get(ref.node, BROKEN)
        return found.values if isinstance(found, LoopResult) else found


def is_broken(value: Any) -> bool:
    """Whether an operand holds a value that cannot be computed."""
    if isinstance(value, Mapping):
        return any(is_broken(item) for item in value.values())
    if isinstance(value, list | tuple):
        return any(map(is_broken, value))
    return value is BROKEN


class Following(Protocol):
    """One instance that is being followed; see `follow.Follower`."""

    program: Program
    row: int
    setting: Setting
    spans: Spans
    conditions: Conditions
    calls: list[KnownCall]
    bounded: bool

    def fail(self, node: Node, why: str) -> Any: ...

    def frame(
        self,
        graph: Graph,
        root: KnownStream,
        params: Mapping[str, Any],
        base: Condition,
        waits: frozenset[int],
        repeats: bool = False,
        depth: int = 0,
    ) -> Frame: ...
