"""Starts the nodes that take their turn in a stream: calls, forks, joins, roles, media, hints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from sgc_ir.graph import ROOT_STREAM, UNSET, Node, Ref, forks_of
from sgc_ir.params import SamplingParams
from sgc_runtime.executor.cell import Cell, ListCell, as_cell, gather, resolve
from sgc_runtime.executor.executable import NOT_PARAMS
from sgc_runtime.executor.frame import Frame
from sgc_runtime.executor.gate import Branch, Family, Gate, Gathered
from sgc_runtime.executor.operations import ForkPoint
from sgc_runtime.executor.pending import Pending
from sgc_runtime.executor.stream import Stream, drain_branches, unset_reason

# -- model calls


def model_call(frame: Frame, node: Node) -> Any:
    """A Gen, or a Select (its choices are among the parameters)."""
    attrs = node.attrs
    name, order = attrs["name"], frame.order(node)
    ordinal = frame.operand(attrs["ordinal"])
    params = _params(frame, node)
    facts = frame.lives.calls.get(node.id) if frame.lives is not None else None
    now = frame.stream_now(node)
    if now is not None:
        return now.gen(name, params, node.source, ordinal, order, facts)
    pending = Pending(name)

    def begin(stream: Stream) -> None:
        inner = stream.gen(name, params, node.source, ordinal, order, facts)
        inner.value.forward(pending.value)
        inner.meta.forward(pending.meta)

    frame.in_stream(node, begin, pending.fail)
    return pending


def _params(frame: Frame, node: Node) -> Mapping[str, Any] | SamplingParams:
    try:
        static = frame.plan.params(node, frame.root.ctx.defaults.params)
    except (ValueError, TypeError):
        static = None  # the call itself fails with the reason, in its turn
    if static is not None:
        return static
    return {k: frame.operand(v) for k, v in node.attrs.items() if k not in NOT_PARAMS}


# -- forks


def fork(frame: Frame, node: Node) -> Any:
    root = frame.body_root if node.stream == ROOT_STREAM else None
    found = frame.values[node.stream] if node.stream != ROOT_STREAM else frame.root
    if node.id not in frame.plan.gated and type(found) is Stream and root is None:
        return _fork_now(frame, node, found)
    family = Family(Cell(), frame.gate_of(node.id))
    if root is not None and root.point is not None:
        family.life = frame.root.core.life
        _branches_later(frame, node, frame.root, root.point, root.variables, family, close=False)
        return family

    def begin(stream: Stream) -> None:
        family.life = stream.core.life
        point = stream.fork_point(node.source, frame.order(node))
        _branches_later(frame, node, stream, point, dict(stream.variables), family, close=True)

    frame.in_stream(node, begin, family.branches.fail)
    return family


def _fork_now(frame: Frame, node: Node, stream: Stream) -> Family:
    attrs = node.attrs
    items = attrs.get("items")
    ordinal = frame.operand(attrs["ordinal"])
    try:
        branches = stream.fork(
            attrs.get("width", 0),
            node.source,
            ordinal=ordinal.value if isinstance(ordinal, Cell) else ordinal,
            items=frame.operand(items) if items is not None else None,
            order=frame.order(node),
        )
    except Exception as error:  # noted by the stream
        return Family(Cell.failed(error), Gate())
    frame.opened += branches
    return Family(Cell.of(branches), None)


def _branches_later(
    frame: Frame,
    node: Node,
    stream: Stream,
    point: ForkPoint,
    variables: Mapping[str, Pending],
    family: Family,
    close: bool,
) -> None:
    """Make the branches once ordinal and width are known."""
    attrs = node.attrs
    frame.defer()

    def ready(value: Any, error: BaseException | None) -> None:
        try:
            if error is not None:
                raise error
            ordinal, width, items = value
            members = list(items) if items is not None else None
            branches = stream.branches(point, width, ordinal, members, variables)
            frame.opened += branches
            family.branches.set(branches)
        except BaseException as failure:
            family.branches.fail(failure)
        if close:
            point.close()
        frame.undefer()

    width, items = attrs.get("width"), attrs.get("items")
    resolve(frame.operand((attrs["ordinal"], width, items)), ready)


def get_fork_item(frame: Frame, node: Node) -> Any:
    family: Family = frame.values[node.attrs["fork"].node]
    index = frame.operand(node.attrs["index"])
    if family.gate is None:
        return frame.opened_branch(node, family.branches.value[index])
    stream = Cell()
    families: list[Family] = [frame.values[fork] for fork in forks_of(node)]
    cells = [found.branches for found in families]
    if isinstance(index, Cell):
        cells.append(index)

    def begin(error: BaseException | None) -> None:
        if error is not None:
            stream.fail(error)
        else:
            at = index.value if isinstance(index, Cell) else index
            try:
                branch = [b for found in families for b in found.branches.value][at]
                frame.note_chosen(node, branch, families)
                stream.set(frame.opened_branch(node, branch))
            except (IndexError, TypeError) as wrong:
                stream.fail(frame.fail(node, wrong))
        frame.undefer()

    frame.defer()
    family.gate.enter(cells, begin)
    return Branch(stream, family.gate)


# -- joins


def join(frame: Frame, node: Node) -> Any:
    family: Family = frame.values[node.attrs["fork"].node]
    if node.attrs["mode"] == "append":
        _join_append(frame, node, family)
        return None
    names = node.attrs.get("vars")
    variables = Cell()
    waits = _unsure_writers(frame, names)
    if names is not None and not waits:
        variables.set({name: _gathered(frame, name, writers) for name, writers in names.items()})

    def begin(stream: Stream) -> None:
        if names is None:
            gather = partial(_gather, frame, node, stream, variables=variables)
            with_branches(frame, node, family, gather, variables.fail)
            return
        if waits:
            _gather_joined(frame, node, family, waits, variables)
        variables.then(lambda cell: _keep(stream, cell))
        with_branches(frame, node, family, lambda streams: [s.close() for s in streams])

    frame.in_stream(node, begin, variables.fail)
    return Gathered(variables)


def _keep(stream: Stream, variables: Cell) -> None:
    if variables.error is None:
        stream.variables.update(variables.value)


def _unsure_writers(frame: Frame, names: Any) -> list[Cell]:
    """What says at run time which variables there are: joins inside of the branches, and writers
    of which a branch may lack one."""
    refs = [w for found in (names or {}).values() for w in found if type(w) is Ref]
    waits: list[Cell] = []
    for ref in refs:
        found = frame.values[ref.node]
        if type(found) is Gathered:
            waits.append(found.variables)
        elif ref.node in frame.plan.unsure:
            waits.append(found.value if type(found) is Pending else as_cell(found))
    return waits


def _gather_joined(
    frame: Frame, node: Node, family: Family, waits: list[Cell], variables: Cell
) -> None:
    """Gather when it is known which variables there are."""

    def ready(error: BaseException | None) -> None:
        if error is not None:
            variables.fail(error)
        else:
            with_branches(frame, node, family, give, variables.fail)
        frame.undefer()

    def give(branches: list[Stream]) -> None:
        gathered: dict[str, Pending] = {}
        for name, writers in node.attrs["vars"].items():
            lacking = [i for i, writer in enumerate(writers) if _lacks(frame, name, writer)]
            if not lacking:
                gathered[name] = _gathered(frame, name, writers)
            elif len(lacking) < len(writers):
                reason = unset_reason(name, branches[lacking[0]])
                variables.fail(frame.node_failure(node, reason))
                return
        variables.set(gathered)

    frame.defer()
    gather(waits, ready)


def _lacks(frame: Frame, name: str, writer: Any) -> bool:
    """Whether the writer is a join over no branches, or on a path that was not taken; all that
    says so is done."""
    found = _writer(frame, writer)
    return found is UNSET or (type(found) is Gathered and name not in found.variables.value)


def _gathered(frame: Frame, name: str, writers: Any) -> Pending:
    found = [_written(frame, name, writer) for writer in writers]
    values = [f.value if type(f) is Pending else f for f in found]
    metas: list[Any] = [f.meta if type(f) is Pending else {} for f in found]
    return Pending(name, "", ListCell.holding(values), as_cell(metas))


def _written(frame: Frame, name: str, writer: Any) -> Any:
    found = _writer(frame, writer)
    return found.variables.value[name] if type(found) is Gathered else found


def _writer(frame: Frame, writer: Any) -> Any:
    if type(writer) is not Ref:
        return frame.operand(writer)
    found = frame.values[writer.node]
    value = found.value.value if type(found) is Pending else None
    return value if value is UNSET or type(value) is Gathered else found


def _gather(
    frame: Frame, node: Node, stream: Stream, branches: list[Stream], *, variables: Cell
) -> None:
    try:
        variables.set(stream.gather(branches, node.source, frame.order(node)))
    except Exception as error:  # noted by the stream
        variables.fail(error)


def _join_append(frame: Frame, node: Node, family: Family) -> None:
    ready = Cell()
    order = frame.order(node)
    frame.in_stream(node, lambda stream: stream.append_later(ready, node.source, order))
    drain = partial(drain_branches, ready=ready)
    with_branches(frame, node, family, drain, ready.fail)


def with_branches(frame: Frame, join: Node, family: Family, use: Any, failed: Any = None) -> None:
    """Call `use(branches)` in program order, once they are there."""
    cell = family.branches
    if family.gate is None:
        frame.when_branches_written(join, lambda: use(cell.value))
        return

    def begin(error: BaseException | None) -> None:
        if error is None:
            _after_turns(cell.value, used)
            return
        if failed is not None:
            failed(error)
        frame.undefer()

    def used() -> None:
        use(cell.value)
        frame.undefer()

    frame.defer()
    family.gate.enter([cell], begin)


def _after_turns(branches: list[Stream], then: Callable[[], None]) -> None:
    """Call `then` when those who use the branches for long have given them all that they give."""
    cells: list[Cell] = []
    for branch in branches:
        if branch.turns is not None:
            cells.append(Cell())
            branch.turns.enter([], partial(_note, cells[-1]))
    gather(cells, lambda _: then())


def _note(cell: Cell, _: BaseException | None) -> None:
    cell.set(None)


# -- roles, media, hints


def role_begin(frame: Frame, node: Node) -> Any:
    role, order = node.attrs["role"], frame.order(node)
    frame.in_stream(node, lambda stream: stream.role_begin(role, node.source, order))


def role_end(frame: Frame, node: Node) -> Any:
    order = frame.order(node)
    frame.in_stream(node, lambda stream: stream.role_end(node.source, order))


def media(frame: Frame, node: Node) -> Any:
    kind, order = node.op.lower(), frame.order(node)
    data = frame.operand(node.attrs["data"])
    frames = frame.operand(node.attrs.get("num_frames"))
    frame.in_stream(node, lambda stream: stream.media(kind, data, frames, node.source, order))


def prefix_hint(frame: Frame, node: Node) -> Any:
    facts = frame.operand(dict(node.attrs))
    order = frame.order(node)
    frame.in_stream(node, lambda stream: stream.hint(facts, node.source, order))
