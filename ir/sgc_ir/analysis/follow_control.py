"""Follows branches, merges and loops: all that the run may decide."""

from __future__ import annotations

from typing import Any

from sgc_ir.analysis.conditions import Condition
from sgc_ir.analysis.follow_values import either
from sgc_ir.analysis.frames import BROKEN, Family, Following, Frame, LoopResult, is_broken
from sgc_ir.analysis.spans import Unknown, calls_of, is_open
from sgc_ir.graph import ROOT_STREAM, Node, Ref
from sgc_ir.ops import Op


def follow_branch(follower: Following, frame: Frame, node: Node, condition: Condition) -> Any:
    cond = frame.operand(node.attrs["cond"])
    waits = frame.waits_of(node)
    if "on" in node.attrs:
        cond = _has_failed(frame, node, cond)
    arms: dict[bool, Condition | None]
    if is_broken(cond):
        arms = {True: None, False: None}
    elif _truth(cond) is None:
        arms = {arm: condition | {(frame.number, node.id, arm)} for arm in (True, False)}
        waits |= calls_of(follower.spans.inside(cond))
    else:
        arms = {True: condition, False: None} if _truth(cond) else {True: None, False: condition}
    frame.arms[node.id], frame.arm_waits[node.id] = arms, waits
    return cond


def _has_failed(frame: Frame, branch: Node, cond: Any) -> Any:
    """Calls and readings are taken to go well; an expression may fail where it is not known."""
    if is_broken(cond):
        return True
    is_expression = frame.graph.nodes[branch.attrs["cond"].node].op is Op.EXPR
    return cond if is_expression and _truth(cond) is None else False


def _truth(cond: Any) -> bool | None:
    """None: the run decides."""
    if isinstance(cond, Unknown) or (isinstance(cond, str) and is_open(cond)):
        return None
    return bool(cond)


def follow_merge(follower: Following, frame: Frame, node: Node, condition: Condition) -> Any:
    ways, at, waits = [], [], frozenset[int]()
    for i, (ref, arm) in enumerate(node.attrs["tokens"]):
        way = frame.arms[ref.node].get(arm)
        waits |= frame.arm_waits.get(ref.node, frozenset())
        if way is not None:
            ways.append(way)
            at.append(i)
    frame.arm_waits[node.id] = waits
    if not ways:
        frame.arms[node.id] = {True: None}
        return BROKEN
    arrives = follower.conditions.merged((frame.number, node.id, True), ways)
    frame.arms[node.id] = {True: arrives}
    operands = node.attrs["values"]
    if not operands:
        return None
    values = [_whole(frame, operands[i]) for i in at]
    return values[0] if len(values) == 1 else either(follower, values, waits)


def _whole(frame: Frame, operand: Any) -> Any:
    """An operand; of a node all that it gives."""
    return (
        frame.values.get(operand.node, BROKEN)
        if isinstance(operand, Ref)
        else (frame.operand(operand))
    )


# -- loops


def follow_loop(follower: Following, frame: Frame, node: Node, condition: Condition) -> Any:
    return _Loop(follower, frame, node, condition).run()


class _Loop:
    def __init__(self, follower: Following, frame: Frame, node: Node, condition: Condition) -> None:
        assert node.body is not None, "a loop without a body"
        self.follower, self.frame, self.node, self.body = follower, frame, node, node.body
        self.condition, self.waits = condition, frame.waits_of(node)
        self.captures = {p: _whole(frame, ref) for p, ref in node.attrs["captures"].items()}
        entries = node.attrs.get("carried") or {}
        self.carried = {name: _whole(frame, operand) for name, operand in entries.items()}
        self.left = [dict(self.carried)]  # carried values after each pass that may be the last
        self.passes: list[Frame] = []
        self.ends: frozenset[int] = frozenset()  # calls that decide which pass is the last

    def run(self) -> Any:
        over = [self.frame.operand(operand) for operand in self.node.attrs["over"]]
        limit = self.frame.operand(self.node.attrs.get("max"))
        stream = self.frame.stream(self.node)
        if stream is None or is_broken((over, limit)):
            return BROKEN
        columns = [_column(walked) for walked in over]
        least, most = self._lengths(columns, limit)
        if most is None:
            self._pass(0, columns, self._open(0), repeats=True)
            self.follower.bounded = False
            return self._result(closed=False)
        self._passes(columns, least, most)
        return self._result(closed=least == most and not self.ends)

    def _lengths(self, columns: list[Any], limit: Any) -> tuple[int, int | None]:
        """Smallest and largest number of passes."""
        known = [len(column) for column in columns if column is not None]
        unknown = [column for column in columns if column is None]
        if isinstance(limit, Unknown):
            unknown.append(None)
        elif isinstance(limit, int):
            known.append(max(0, limit))
        most = min(known) if known else None
        if unknown:
            inside = self.follower.spans.inside(self.frame.operand(self.node.attrs["over"]))
            self.ends |= calls_of(inside)
            self.waits |= self.ends
            if most is not None and most > self.follower.setting.max_passes:
                return 0, None
            return 0, most
        return most or 0, most

    def _passes(self, columns: list[Any], least: int, most: int) -> None:
        decided = True
        for i in range(most):
            if not decided and i >= self.follower.setting.max_passes:
                self.follower.bounded = False
                return
            decided = decided and i < least
            condition = self.condition if decided else self._open(i)
            found = self._pass(i, columns, condition, repeats=False)
            if is_broken(found.kind) or found.kind is None:
                return
            if _truth(found.kind) is None:
                decided = False
                self.ends |= calls_of(self.follower.spans.inside(found.kind))
                self.waits |= self.ends
            elif found.kind != 0:
                return
            if i + 1 >= least or not decided:
                self.left.append(dict(self.carried))
            else:
                self.left = [dict(self.carried)]

    def _open(self, i: int) -> Condition:
        """Under which pass `i` runs, where the run decides the number of passes."""
        before = self.passes[-1].base if self.passes else self.condition
        return before | {(self.frame.number, -2 - self.node.id * 100_000 - i, True)}

    def _pass(self, i: int, columns: list[Any], condition: Condition, repeats: bool) -> Frame:
        node, follower = self.node, self.follower
        params: dict[str, Any] = {
            name: self._item(column, i, repeats)
            for name, column in zip(node.attrs["item_params"], columns, strict=True)
        }
        if node.attrs["index_param"]:
            params[node.attrs["index_param"]] = self._unknown() if repeats else i
        params |= self.captures
        params |= {name: self._unknown() for name in self.carried} if repeats else self.carried
        root = self.frame.root
        if node.stream != ROOT_STREAM:
            found = self.frame.stream(node)
            root = found if found is not None else root
        done = follower.frame(
            self.body,
            root,
            params,
            condition,
            self.waits,
            repeats or self.frame.repeats,
            self.frame.depth,
        )
        self.passes.append(done)
        self.carried = {name: done.variables.get(name, BROKEN) for name in self.carried}
        return done

    def _item(self, column: Any, i: int, repeats: bool) -> Any:
        return self._unknown() if column is None or repeats else column[i]

    def _unknown(self) -> Unknown:
        return Unknown(self.follower.spans.new(0, None, self.waits))

    def _result(self, closed: bool) -> LoopResult:
        last = self.passes[-1] if self.passes else None
        if closed:
            kind = last.kind if last is not None else 0
            return LoopResult([p.result for p in self.passes], self.carried, kind)
        values = [p.result for p in self.passes]
        inside = self.follower.spans.inside(values)
        calls = self.waits | self.ends
        if last is not None and last.repeats and not self.frame.repeats:
            outputs: dict[str, Any] = {name: self._unknown() for name in self.carried}
        else:
            states = [*self.left[:-1], self.carried]
            outputs = {
                name: either(self.follower, [state[name] for state in states], calls)
                for name in self.carried
            }
        made = Unknown(self.follower.spans.new(0, None, calls | calls_of(inside)))
        has_kind = "kind" in self.body.nodes[-1].attrs
        return LoopResult(made, outputs, self._unknown() if has_kind else 0)


def _column(walked: Any) -> Any:
    """One item a pass; None where the run decides how many there are."""
    if isinstance(walked, Family):
        return None if walked.width is None else range(walked.width)
    if isinstance(walked, Unknown) or (isinstance(walked, str) and is_open(walked)):
        return None
    return list(walked)
