"""Follows a program for one row with what is known before the run: all paths that it may take.

Each node is visited once (nodes of loops once a pass), with values that may be unknown, so the
work grows with the graph and not with the number of paths. Where a predicate is open, both arms
are followed under their conditions (`conditions`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from sgc_ir.analysis.conditions import ALWAYS, Condition, Conditions
from sgc_ir.analysis.follow_control import follow_branch, follow_loop, follow_merge
from sgc_ir.analysis.follow_race import follow_first
from sgc_ir.analysis.follow_streams import (
    follow_call,
    follow_fork,
    follow_fork_item,
    follow_join,
    follow_media,
    follow_role,
)
from sgc_ir.analysis.follow_values import (
    follow_argument,
    follow_expression,
    follow_sub_program,
    follow_text,
    follow_tool,
    follow_variable,
)
from sgc_ir.analysis.frames import BROKEN, Frame
from sgc_ir.analysis.known_calls import Instance, KnownCall, Setting
from sgc_ir.analysis.known_stream import KnownStream
from sgc_ir.analysis.spans import Spans, holds_mark
from sgc_ir.errors import InputError
from sgc_ir.graph import MISSING, Graph, Node, Program
from sgc_ir.ops import Op


class Follower:
    """One instance that is being followed.

    Attributes:
        calls: found so far.
        failure: the first thing that cannot be computed.
        bounded: see `Instance`.
    """

    def __init__(self, program: Program, row: int, setting: Setting) -> None:
        self.program, self.row, self.setting = program, row, setting
        self.spans, self.conditions = Spans(row), Conditions()
        self.calls: list[KnownCall] = []
        self.failure: str | None = None
        self.bounded = True
        self._frames = count()

    def fail(self, node: Node, why: str) -> Any:
        """Note that a node cannot be computed; gives its value."""
        if self.failure is None:
            self.failure = f"{node.source}: {why}" if str(node.source) else why
        return BROKEN

    def frame(
        self,
        graph: Graph,
        root: KnownStream,
        params: Mapping[str, Any],
        base: Condition,
        waits: frozenset[int],
        repeats: bool = False,
        depth: int = 0,
    ) -> Frame:
        """Follow a graph from its first node to its last."""
        number, first = next(self._frames), len(self.calls)
        frame = Frame(number, graph, root, params, base, waits, repeats, depth)
        for node in graph.nodes:
            condition = ALWAYS if node.op is Op.MERGE else frame.condition(node)
            if condition is not None:
                found = _FOLLOW[node.op](self, frame, node, condition)
                frame.values[node.id] = found
            elif node.op is Op.BRANCH:
                frame.arms[node.id] = {True: None, False: None}
        frame.calls = range(first, len(self.calls))
        return frame


def follow(program: Program, arguments: Mapping[str, Any], row: int, setting: Setting) -> Instance:
    """The model calls of the row `row`.

    Args:
        arguments: values of the main graph's parameters; those that are left out have defaults.

    Raises:
        InputError: an argument is missing or unknown, or holds U+FDD0 to U+FDD2, which stand for
            what only the run knows.
    """
    values = _arguments(program.graph, arguments)
    follower = Follower(program, row, setting)
    root = KnownStream(program.main.partition(".")[0], "")
    follower.frame(program.graph, root, values, ALWAYS, frozenset())
    return Instance(row, tuple(follower.calls), follower.failure, follower.bounded, values)


def _arguments(graph: Graph, given: Mapping[str, Any]) -> dict[str, Any]:
    names = [param.name for param in graph.params]
    unknown = [name for name in given if name not in names]
    values = {p.name: given.get(p.name, p.default) for p in graph.params}
    missing = [name for name, value in values.items() if value is MISSING]
    for what, found in (("unknown", unknown), ("missing", missing)):
        if found:
            known = ", ".join(names) or "none"
            raise InputError(
                f"{graph.name}: {what} argument {', '.join(found)}; its arguments are {known}"
            )
    _refuse_marks(values, graph.name)
    return values


def _refuse_marks(value: Any, where: str) -> None:
    if isinstance(value, str) and holds_mark(value):
        raise InputError(f"{where}: an argument holds U+FDD0 or U+FDD1, no characters; drop them")
    if isinstance(value, Mapping):
        for key, item in value.items():
            _refuse_marks(key, where)
            _refuse_marks(item, where)
    elif isinstance(value, list | tuple):
        for item in value:
            _refuse_marks(item, where)


def _return(follower: Follower, frame: Frame, node: Node, condition: Condition) -> None:
    frame.result = frame.operand(node.attrs["value"])
    frame.variables = {name: frame.operand(v) for name, v in node.attrs["vars"].items()}
    frame.kind = frame.operand(node.attrs.get("kind", 0))


def _nothing(follower: Follower, frame: Frame, node: Node, condition: Condition) -> None:
    return None


_FOLLOW: Mapping[Op, Callable[[Follower, Frame, Node, Condition], Any]] = {
    Op.CONSTANT_TEXT: follow_text,
    Op.ARGUMENT: follow_argument,
    Op.VARIABLE: follow_variable,
    Op.EXPR: follow_expression,
    Op.GEN: follow_call,
    Op.SELECT: follow_call,
    Op.FORK: follow_fork,
    Op.GET_FORK_ITEM: follow_fork_item,
    Op.JOIN: follow_join,
    Op.ROLE_BEGIN: follow_role,
    Op.ROLE_END: follow_role,
    Op.IMAGE: follow_media,
    Op.VIDEO: follow_media,
    Op.CALL: follow_tool,
    Op.SUB_PROGRAM: follow_sub_program,
    Op.FIRST: follow_first,
    Op.PREFIX_HINT: _nothing,
    Op.BRANCH: follow_branch,
    Op.MERGE: follow_merge,
    Op.LOOP: follow_loop,
    Op.RETURN: _return,
}
