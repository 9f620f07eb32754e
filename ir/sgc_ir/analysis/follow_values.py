"""Follows nodes that carry data: texts, arguments, variables, expressions, tools, sub-programs."""

from __future__ import annotations

from typing import Any

from sgc_ir.analysis.conditions import Condition
from sgc_ir.analysis.frames import (
    BROKEN,
    Family,
    Following,
    Frame,
    Gathered,
    LoopResult,
    is_broken,
)
from sgc_ir.analysis.known_stream import KnownStream, text_of
from sgc_ir.analysis.partial_values import as_text, evaluate_partly
from sgc_ir.analysis.spans import Unknown, calls_of
from sgc_ir.graph import MISSING, UNSET, Node, Ref
from sgc_ir.paths import join_path


def follow_text(follower: Following, frame: Frame, node: Node, condition: Condition) -> Any:
    text = node.attrs["text"]
    _append(follower, frame, node, condition, text)
    return text


def follow_argument(follower: Following, frame: Frame, node: Node, condition: Condition) -> Any:
    value = frame.params.get(node.attrs["name"], BROKEN)
    if node.attrs.get("append"):
        _append(follower, frame, node, condition, value)
    return value


def _append(
    follower: Following, frame: Frame, node: Node, condition: Condition, value: Any
) -> None:
    stream = frame.stream(node)
    if stream is None or stream.broken:
        return
    if is_broken(value) or value is UNSET:
        stream.broken = True
        return
    stream.add("text", _shown(follower, value), condition)


def _shown(follower: Following, value: Any) -> str:
    text = as_text(value)
    inside = follower.spans.inside(value)
    if text is None or (inside and not isinstance(value, str | Unknown)):
        if not inside:
            return str(value)
        return follower.spans.new(0, None, calls_of(inside)).mark
    return text


def follow_expression(follower: Following, frame: Frame, node: Node, condition: Condition) -> Any:
    fn = node.attrs["fn"]
    args = frame.operand(tuple(node.attrs["args"]))
    kwargs = frame.operand(dict(node.attrs.get("kwargs") or {}))
    value: Any = BROKEN
    if not is_broken((args, kwargs)):
        try:
            value = evaluate_partly(fn, args, kwargs, follower.spans)
        except Exception as error:  # whatever the function raises in Python fails the node
            # A path that may not be taken may fail: that says nothing of the row.
            if not condition and not _is_tried(frame, node):
                follower.fail(node, f"{type(error).__name__}: {error}")
    stream = frame.stream(node)
    if fn == "set" and stream is not None:
        stream.variables[args[0]] = value
    if node.attrs.get("append"):
        _append(follower, frame, node, condition, value)
    return value


def _is_tried(frame: Frame, node: Node) -> bool:
    """Whether the Branch behind an expression takes its error."""
    after = frame.graph.nodes[node.id + 1]
    return "on" in after.attrs and bool(after.attrs["cond"] == Ref(node.id))


# -- variables


def follow_variable(follower: Following, frame: Frame, node: Node, condition: Condition) -> Any:
    field = node.attrs.get("field", "value")
    of = node.attrs.get("of")
    target = frame.values.get(of.node, BROKEN) if isinstance(of, Ref) else frame.stream(node)
    value = _read(follower, frame, node, condition, target, field)
    if node.attrs.get("append"):
        _append(follower, frame, node, condition, value)
    return value


def _read(
    follower: Following, frame: Frame, node: Node, condition: Condition, target: Any, field: str
) -> Any:
    name = node.attrs["name"]
    what = field.removeprefix("stream_")
    if target is BROKEN or target is None or target is UNSET:
        return BROKEN
    if field == "error":
        return Unknown(follower.spans.new(0, None, frame.waits_of(node)))
    if isinstance(target, LoopResult) and field in ("output", "kind"):
        return target.kind if field == "kind" else target.outputs.get(name, BROKEN)
    stream = target.root if isinstance(target, Frame) else target
    if isinstance(stream, KnownStream) and what in ("text", "messages"):
        return _text(follower, stream, condition, what)
    if isinstance(target, Frame):
        found = target.result if field == "result" else target.variables.get(name, BROKEN)
    elif isinstance(target, KnownStream):
        found = target.item if field == "item" else target.variables.get(name, BROKEN)
    elif isinstance(target, Gathered):
        found = target.variables.get(name, BROKEN)
    else:
        found = target.values if isinstance(target, LoopResult) else target
    if field == "meta":
        return _unknown_like(follower, found)
    return found


def _text(follower: Following, stream: KnownStream, condition: Condition, what: str) -> Any:
    if stream.broken:
        return BROKEN
    setting = follower.setting
    text = text_of(
        stream, condition, follower.conditions, setting.renderer, follower.spans, setting.count
    )
    inside = follower.spans.inside(text)
    if what == "messages":
        return Unknown(follower.spans.new(0, None, calls_of(inside)))
    return text


def _unknown_like(follower: Following, value: Any) -> Any:
    if is_broken(value):
        return BROKEN
    inside = follower.spans.inside(value)
    return Unknown(follower.spans.new(0, None, calls_of(inside)))


# -- tools and sub-programs


def follow_tool(follower: Following, frame: Frame, node: Node, condition: Condition) -> Any:
    operands = frame.operand((tuple(node.attrs["args"]), dict(node.attrs.get("kwargs") or {})))
    if is_broken(operands):
        return BROKEN
    waits = calls_of(follower.spans.inside(operands)) | frame.waits_of(node)
    return Unknown(follower.spans.new(0, None, waits))


def follow_sub_program(follower: Following, frame: Frame, node: Node, condition: Condition) -> Any:
    graph = follower.program.graphs[node.attrs["callee"]]
    stream = frame.stream(node)
    given = frame.operand(dict(node.attrs["args"]))
    params = {p.name: given.get(p.name, p.default) for p in graph.params}
    if stream is None or is_broken(params) or any(v is MISSING for v in params.values()):
        return BROKEN
    if frame.depth >= follower.setting.max_depth:
        follower.bounded = False
        waits = calls_of(follower.spans.inside(params)) | frame.waits_of(node)
        return Unknown(follower.spans.new(0, None, waits))
    ordinal = node.attrs["ordinal"]
    path = join_path(stream.path, f"c{ordinal if isinstance(ordinal, int) else '*'}")
    root = KnownStream(graph.name.partition(".")[0], path)
    return follower.frame(
        graph, root, params, condition, frame.waits_of(node), frame.repeats, frame.depth + 1
    )


def either(follower: Following, values: list[Any], calls: frozenset[int]) -> Any:
    """What is one of several values, as the calls decide."""
    there = [value for value in values if value is not BROKEN]
    if not there:
        return BROKEN
    first = there[0]
    if all(_same(value, first) for value in there) and len(there) == len(values):
        return first
    high: int | None = 0
    low: int | None = None
    for value in there:
        bounds = _bounds(follower, value)
        low = bounds[0] if low is None else min(low, bounds[0])
        high = None if high is None or bounds[1] is None else max(high, bounds[1])
    inside = follower.spans.inside(there)
    is_text = all(isinstance(v, str) or (isinstance(v, Unknown) and v.is_text) for v in there)
    unset = any(v is UNSET or (isinstance(v, Unknown) and v.may_be_unset) for v in there)
    span = follower.spans.new(low or 0, high, calls | calls_of(inside))
    return Unknown(span, is_text, unset)


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    plain = (str, int, float, bool, type(None), Unknown)
    return type(a) is type(b) and isinstance(a, plain) and bool(a == b)


def _bounds(follower: Following, value: Any) -> tuple[int, int | None]:
    """Tokens of a value's text."""
    count, spans = follower.setting.count, follower.spans
    if isinstance(value, str | Unknown):
        parts = spans.parts(str(value))
        known = sum(count(part) for part in parts if isinstance(part, str))
        inside = [part for part in parts if not isinstance(part, str)]
        highs = [span.high for span in inside]
        high = known + sum(h for h in highs if h is not None) if None not in highs else None
        return known + sum(span.low for span in inside), high
    if value is UNSET or isinstance(value, Frame | Family | KnownStream | Gathered | LoopResult):
        return 0, 0 if value is UNSET else None
    inside = spans.inside(value)
    return (0, None) if inside else (0, count(str(value)))
