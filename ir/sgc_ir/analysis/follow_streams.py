"""Follows nodes that take their turn in a stream: calls, forks, joins, roles, media."""

from __future__ import annotations

from typing import Any

from sgc_ir.analysis.conditions import Condition
from sgc_ir.analysis.frames import BROKEN, Family, Following, Frame, Gathered, is_broken
from sgc_ir.analysis.known_calls import KnownCall
from sgc_ir.analysis.known_stream import KnownStream, text_of
from sgc_ir.analysis.output_bounds import OutputBounds, output_bounds
from sgc_ir.analysis.spans import Span, Unknown, calls_of, is_open
from sgc_ir.graph import UNSET, Node, Ref, forks_of
from sgc_ir.ops import Op
from sgc_ir.params import PARAM_NAMES
from sgc_ir.paths import join_path

# -- model calls


def follow_call(follower: Following, frame: Frame, node: Node, condition: Condition) -> Any:
    stream = frame.stream(node)
    attrs = frame.operand({k: v for k, v in node.attrs.items() if k in PARAM_NAMES})
    if stream is None or stream.broken:
        return BROKEN
    if is_broken(attrs):
        stream.broken = True
        return BROKEN
    try:
        bounds, samples = _bounds(follower, attrs)
    except (ValueError, TypeError) as error:
        stream.broken = True
        return follower.fail(node, str(error))
    call = _call(follower, frame, node, condition, stream, bounds, samples, attrs)
    follower.calls.append(call)
    stream.add("text", call.output.mark, condition)
    value = _value(follower, call, attrs)
    stream.variables[node.attrs["name"]] = value
    return value


def _bounds(
    follower: Following, attrs: dict[str, Any]
) -> tuple[tuple[int, int | None], int | None]:
    """Tokens of one sample, and the number of samples."""
    setting = follower.setting
    if not is_open(attrs):
        params = setting.defaults.override(attrs)
        return output_bounds(params, setting.count), params.n
    known = {k: v for k, v in attrs.items() if not is_open(v)}
    samples = None if "n" in attrs and is_open(attrs["n"]) else known.get("n", 1)
    if "choices" in attrs or ("max_tokens" in attrs and "max_tokens" not in known):
        return (0, None), samples
    found: OutputBounds = output_bounds(setting.defaults.override(known), setting.count)
    return (0, found.high), samples


def _call(
    follower: Following,
    frame: Frame,
    node: Node,
    condition: Condition,
    stream: KnownStream,
    bounds: tuple[int, int | None],
    samples: int | None,
    attrs: dict[str, Any],
) -> KnownCall:
    setting, spans = follower.setting, follower.spans
    text = text_of(stream, condition, follower.conditions, setting.renderer, spans, setting.count)
    prompt = tuple(spans.parts(text))
    low, high = bounds
    waits = frame.waits_of(node) | calls_of(p for p in prompt if isinstance(p, Span))
    waits |= calls_of(spans.inside(attrs))
    number = len(follower.calls)
    is_select = node.op is Op.SELECT or attrs.get("choices") is not None
    times = samples or 1
    ordinal = node.attrs["ordinal"]
    shown = ordinal if isinstance(ordinal, int) else frame.operand(ordinal)
    if not isinstance(shown, int):
        shown = "*"
    return KnownCall(
        row=follower.row,
        number=number,
        program=stream.program,
        path=join_path(stream.path, f"g{shown}"),
        name=node.attrs["name"],
        kind="select" if is_select else "gen",
        source=node.source,
        prompt=prompt,
        output=spans.new(low, high, frozenset({number})),
        samples=samples,
        tokens_low=0 if is_select else low * times,
        tokens_high=0 if is_select else None if high is None or samples is None else high * times,
        condition=condition,
        repeats=frame.repeats,
        after=waits,
        choices=_choices(attrs.get("choices")),
    )


def _choices(given: Any) -> tuple[str, ...] | None:
    listed = isinstance(given, list | tuple) and all(type(choice) is str for choice in given)
    return tuple(given) if listed and given and not is_open(given) else None


def _value(follower: Following, call: KnownCall, attrs: dict[str, Any]) -> Any:
    is_text = attrs.get("dtype") is None and attrs.get("json_schema") is None
    first = Unknown(call.output, is_text)
    if call.samples == 1:
        return first
    if call.samples is None:
        return Unknown(follower.spans.new(0, None, frozenset({call.number})))
    low, high = call.output.low, call.output.high
    others = [
        Unknown(follower.spans.new(low, high, frozenset({call.number})), is_text)
        for _ in range(call.samples - 1)
    ]
    return [first, *others]


# -- forks and joins


def follow_fork(follower: Following, frame: Frame, node: Node, condition: Condition) -> Any:
    stream = frame.stream(node)
    width, items = (frame.operand(node.attrs.get(name)) for name in ("width", "items"))
    ordinal = frame.operand(node.attrs["ordinal"])
    if stream is None or is_broken((width, items, ordinal)):
        return BROKEN
    shown = ordinal if isinstance(ordinal, int) else "*"
    path = join_path(stream.path, f"f{shown}")
    known: int | None = None
    if isinstance(items, list | tuple):
        known = len(items)
    elif isinstance(width, int):
        known = width
        if known <= 0:
            stream.broken = True
            return follower.fail(node, f"a fork of width {width}")
    return Family(stream.branch(path), path, known, items)


def follow_fork_item(follower: Following, frame: Frame, node: Node, condition: Condition) -> Any:
    families = [frame.values.get(fork) for fork in forks_of(node)]
    family, index = families[0], frame.operand(node.attrs["index"])
    if not isinstance(family, Family) or is_broken(index):
        return BROKEN
    is_new = not isinstance(index, int) and "*" not in family.branches
    others = [b for f in families if isinstance(f, Family) for b in f.branches.values()]
    found = family.branch(index)
    if found is not None and is_new and others:
        _any_of(follower, found, others, index, condition)
    return BROKEN if found is None else found


def _any_of(
    follower: Following,
    found: KnownStream,
    others: list[KnownStream],
    index: Any,
    condition: Condition,
) -> None:
    """Make of a branch one of the others, which one the run decides."""
    calls = calls_of(follower.spans.inside(index))
    pieces = [piece for branch in others for piece in branch.pieces[branch.start :]]
    calls |= calls_of(follower.spans.inside([piece.data for piece in pieces]))
    if pieces:
        found.add("text", follower.spans.new(0, None, calls).mark, condition)
    for name in {name for branch in others for name in branch.variables}:
        found.variables[name] = Unknown(follower.spans.new(0, None, calls))


def follow_join(follower: Following, frame: Frame, node: Node, condition: Condition) -> Any:
    stream = frame.stream(node)
    family = frame.values.get(node.attrs["fork"].node)
    if stream is None or not isinstance(family, Family):
        return BROKEN
    if node.attrs["mode"] == "append":
        _append_branches(follower, stream, family, condition)
        return None
    written = node.attrs.get("vars")
    if written is not None:
        found = {name: _writers(frame, name, writers) for name, writers in written.items()}
    else:
        found = _gathered(follower, family)
    stream.variables.update(found)
    return Gathered(found)


def _writers(frame: Frame, name: str, writers: Any) -> list[Any]:
    values = []
    for writer in writers:
        if isinstance(writer, Ref):
            value = frame.values.get(writer.node, BROKEN)
        else:
            value = frame.operand(writer)
        values.append(value.variables.get(name, BROKEN) if isinstance(value, Gathered) else value)
    return [BROKEN if value is UNSET else value for value in values]


def _gathered(follower: Following, family: Family) -> dict[str, Any]:
    branches = list(family.branches.values())
    new = {
        name: None
        for b in branches
        for name in b.variables
        if name not in family.base.variables and not name.startswith("_")
    }
    if family.width is not None and "*" not in family.branches:
        return {name: [b.variables.get(name, BROKEN) for b in branches] for name in new}
    found: dict[str, Any] = {}
    for name in new:
        calls = calls_of(follower.spans.inside([b.variables.get(name) for b in branches]))
        found[name] = Unknown(follower.spans.new(0, None, calls))
    return found


def _append_branches(
    follower: Following, stream: KnownStream, family: Family, condition: Condition
) -> None:
    if family.width is None or "*" in family.branches:
        pieces = [p for b in family.branches.values() for p in b.pieces[b.start :]]
        inside = [s for p in pieces for s in follower.spans.inside(p.data)]
        span = follower.spans.new(0, None, calls_of(inside))
        stream.add("text", span.mark, condition)
        return
    for index in sorted(i for i in family.branches if isinstance(i, int)):
        branch = family.branches[index]
        stream.broken = stream.broken or branch.broken
        for piece in branch.pieces[branch.start :]:
            stream.add(piece.kind, piece.data, piece.condition | condition)


# -- roles and media


def follow_role(follower: Following, frame: Frame, node: Node, condition: Condition) -> None:
    stream = frame.stream(node)
    if stream is not None and not stream.broken:
        kind = "begin" if node.op is Op.ROLE_BEGIN else "end"
        stream.add(kind, str(node.attrs["role"]), condition)  # type: ignore[arg-type]


def follow_media(follower: Following, frame: Frame, node: Node, condition: Condition) -> None:
    """An image or video: how many tokens it takes, the model decides."""
    stream = frame.stream(node)
    data = frame.operand((node.attrs["data"], node.attrs.get("num_frames")))
    if stream is None or stream.broken:
        return
    if is_broken(data):
        stream.broken = True
        return
    calls = calls_of(follower.spans.inside(data))
    span = follower.spans.for_pieces(("media", repr(data)), None, calls)
    stream.add("text", span.mark, condition)
