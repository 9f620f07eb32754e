"""Starts the nodes that carry data: texts, arguments, variables, expressions, tools, the return."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from sgc_ir.expr import FUNCTIONS
from sgc_ir.graph import UNSET, Node, Ref
from sgc_runtime.executor.cell import Cell, ListCell, as_cell, gather, pending_cells, resolve
from sgc_runtime.executor.failures import guard_reading, raise_again, taken_error, tool_ended
from sgc_runtime.executor.frame import Frame
from sgc_runtime.executor.gate import Branch, Gathered
from sgc_runtime.executor.handle import Handle, UnsetVariable
from sgc_runtime.executor.loop_values import LoopValues
from sgc_runtime.executor.pending import Pending
from sgc_runtime.executor.stream import Stream, unset_reason
from sgc_runtime.executor.tools import own_copy


def constant_text(frame: Frame, node: Node) -> Any:
    text = node.attrs["text"]
    order = frame.order(node)
    now = frame.stream_now(node)
    if now is not None:
        now.append(text, node.source, order)
    else:
        frame.in_stream(node, lambda stream: stream.append(text, node.source, order))
    return text


def argument(frame: Frame, node: Node) -> Any:
    value = frame.params[node.attrs["name"]]
    return _appended(frame, node, value) if node.attrs.get("append") else value


def _appended(frame: Frame, node: Node, value: Any) -> Any:
    data = value.value if type(value) is Pending else value
    order = frame.order(node)
    lead = frame.lead(node) if isinstance(data, Cell) and not data.done else ()
    frame.in_stream(node, lambda stream: stream.append(data, node.source, order, lead))
    return value


# -- variables


def variable(frame: Frame, node: Node) -> Any:
    field = node.attrs.get("field", "value")
    if field in ("stream_text", "stream_messages"):
        value = _stream_reading(frame, node, field)
    elif node.id in frame.plan.checked:
        value = _read_unsure(frame, node, frame.values[node.attrs["of"].node], field)
    else:
        value = _read(frame, node, frame.values[node.attrs["of"].node], field)
    guard_reading(frame, node, value)
    return _appended(frame, node, value) if node.attrs.get("append") else value


def _read(frame: Frame, node: Node, target: Any, field: str) -> Any:
    kind = type(target)
    if kind is Pending:
        return target if field == "value" else target.meta
    if field == "error":
        return taken_error(target)
    if kind is Stream:
        return _read_stream(frame, node, target, field)
    if kind is Branch:
        return _read_branch(frame, node, target, field)
    if kind is Handle:
        return _read_handle(frame, node, target, field)
    if kind is Gathered:
        return _read_gathered(frame, node, target, field)
    if kind is LoopValues and field in ("output", "kind"):
        return target.kind if field == "kind" else target.outputs[node.attrs["name"]]
    if isinstance(target, Cell):
        return _read_later(frame, node, target, field)
    return {} if field == "meta" else target


def _read_unsure(frame: Frame, node: Node, target: Any, field: str) -> Any:
    """A reading of something that may turn out to be UNSET, or a handle."""
    if type(target) is not Pending:
        target = Pending.of("", target) if target is UNSET or isinstance(target, Cell) else target
    if type(target) is not Pending:
        return _read(frame, node, target, field)
    source, pending = target, Pending(node.attrs["name"])

    def ready(cell: Cell) -> None:
        if cell.error is not None:
            pending.fail(cell.error)
        elif cell.value is UNSET:
            reason = unset_reason(pending.name, frame.stream_now(node) or frame.root)
            pending.fail(frame.node_failure(node, reason))
        else:
            found = cell.value if type(cell.value) in (Handle, Gathered) else source
            _fill(pending, _read(frame, node, found, field))

    source.value.then(ready)
    return pending


def _read_gathered(frame: Frame, node: Node, join: Gathered, field: str) -> Any:
    name = node.attrs["name"]
    if join.variables.done and join.variables.error is None and name in join.variables.value:
        found: Pending = join.variables.value[name]
        return found if field == "value" else found.meta
    pending = Pending(name)

    def missing(known: Iterable[str]) -> BaseException:
        there = ", ".join(known) or "nothing"
        reason = f"variable {name!r} is not set in the branches; set there: {there}"
        return frame.node_failure(node, reason)

    _fill_gathered(pending, join, missing)
    return pending if field == "value" else pending.meta


def _fill_gathered(
    pending: Pending, join: Gathered, missing: Callable[[Iterable[str]], BaseException]
) -> None:
    """Give `pending` what the join made of the variable; `missing` makes the error when that is
    nothing, given the names that there are."""

    def ready(cell: Cell) -> None:
        if cell.error is not None:
            pending.fail(cell.error)
        elif pending.name in cell.value:
            _fill(pending, cell.value[pending.name])
        else:
            pending.fail(missing(cell.value))

    join.variables.then(ready)


def _read_stream(frame: Frame, node: Node, stream: Stream, field: str) -> Any:
    if field == "item":
        return stream.item
    if field == "text":
        return stream.text(node.source, frame.order(node))
    if field == "messages":
        return stream.messages(node.source, frame.order(node))
    name = node.attrs["name"]
    found = stream.get(name)
    if found is None:
        error = frame.node_failure(node, unset_reason(name, stream))
        found = Pending(name)
        found.fail(error)
    return found if field == "value" else found.meta


def _read_branch(frame: Frame, node: Node, branch: Branch, field: str) -> Any:
    pending = Pending(node.attrs["name"])

    def begin(error: BaseException | None) -> None:
        if error is not None:
            pending.fail(error)
        else:
            _fill(pending, _read_stream(frame, node, branch.stream.value, field))
        frame.undefer()

    frame.defer()
    branch.enter(begin)
    return pending


def _fill(pending: Pending, found: Any) -> None:
    if type(found) is Pending:
        found.value.forward(pending.value)
        found.meta.forward(pending.meta)
    else:
        as_cell(found).forward(pending.value)
        pending.meta.set({})


def _read_handle(frame: Frame, node: Node, handle: Handle, field: str) -> Any:
    if field in ("text", "messages", "result"):
        return handle.read(field)
    name = node.attrs["name"]
    pending = handle.variable(
        name, lambda stream: frame.node_failure(node, unset_reason(name, stream), stream.path)
    )
    return pending if field == "value" else pending.meta


def _read_later(frame: Frame, node: Node, cell: Cell, field: str) -> Any:
    """A reading of a node whose value, perhaps a handle, is still to come."""
    pending = Pending(node.attrs["name"])

    def ready(done: Cell) -> None:
        if done.error is not None:
            pending.fail(done.error)
        else:
            _fill(pending, _read(frame, node, done.value, field))

    cell.then(ready)
    return pending


def _stream_reading(frame: Frame, node: Node, field: str) -> Any:
    of = node.attrs.get("of")
    target = frame.values[of.node] if isinstance(of, Ref) else None
    what = field.removeprefix("stream_")
    if type(target) in (Stream, Branch, Handle):
        return _read(frame, node, target, what)
    if frame.body_root is not None and node.stream < 0:
        return frame.body_root.text if what == "text" else frame.body_root.messages
    result = Cell()
    order = frame.order(node)

    def begin(stream: Stream) -> None:
        read = stream.text if what == "text" else stream.messages
        read(node.source, order).forward(result)

    frame.in_stream(node, begin, result.fail)
    return result


# -- expressions


def expression(frame: Frame, node: Node) -> Any:
    fn = node.attrs["fn"]
    if fn == "raise_again":
        return raise_again(frame, node)
    args = frame.operand(node.attrs["args"])
    kwargs = frame.operand(node.attrs.get("kwargs") or {})
    if fn == "set":
        name, operand = args
        frame.in_stream(node, lambda stream: stream.set(name, operand))
        return operand
    function = FUNCTIONS[fn]
    result = _early(fn, args)
    if result is None and fn == "getitem":
        result = _item_of_long(frame, args)
    if result is None:
        result = _evaluate(frame, node, function.call, args, kwargs)
    if frame.chain is not None and not function.total and node.id not in frame.plan.tried:
        frame.chain.guard(as_cell(result))
    return _appended(frame, node, result) if node.attrs.get("append") else result


def _early(fn: str, args: Any) -> Any:
    """Length or item of a list whose other items are still to come; None where there is none."""
    if fn not in ("getitem", "len") or not isinstance(args[0], ListCell):
        return None
    items = args[0].items
    if not items.done or items.error is not None:
        return None
    if fn == "len":
        return len(items.value)
    index, length = args[1], len(items.value)
    return items.value[index] if type(index) is int and -length <= index < length else None


def _item_of_long(frame: Frame, args: Any) -> Any:
    """A text or number in a long list of plain data, else None; the list is looked through for
    Cells once, not at each pass of a loop."""
    items, index = args
    if type(items) is not list or type(index) is not int:
        return None
    if len(items) < _LONG or not -len(items) <= index < len(items):
        return None
    known = frame.run.plain
    if known.get(id(items)) is not items:
        if pending_cells(items):
            return None
        known[id(items)] = items
    item = items[index]
    return item if type(item) in (str, int, float, bool) else None


def _evaluate(frame: Frame, node: Node, call: Any, args: Any, kwargs: Any) -> Any:
    if not kwargs and _all_plain(args):
        try:
            return call(*args)
        except Exception as error:
            return Cell.failed(frame.fail(node, error))
    result = Cell()
    frame.compute(node, (args, kwargs), lambda both: call(*both[0], **both[1]), result)
    return result


_LONG = 16


def _all_plain(args: Any) -> bool:
    for arg in args:
        if isinstance(arg, _MAY_WAIT):
            return False
    return True


_MAY_WAIT = (Cell, tuple, list, dict)


# -- tools


def tool_call(frame: Frame, node: Node) -> Any:
    attrs = node.attrs
    tool = frame.run.tools[attrs["tool"]]
    operand = frame.operand(
        (attrs["ordinal"], list(attrs["args"]), dict(attrs.get("kwargs") or {}))
    )
    cells = pending_cells(operand)
    result = done = Cell()
    chain = frame.chain
    if chain is not None and attrs["effect"] != "pure":
        before, done = chain.link()
        cells = [*cells, *before]
    elif chain is not None and node.id not in frame.plan.tried:
        chain.guard(result)
    if done is not result:
        result.then(partial(tool_ended, frame, node, done))
    order = frame.order(node)

    def begin(stream: Stream) -> None:
        def ready(error: BaseException | None) -> None:
            if error is not None:
                result.fail(error)
            else:
                _run_tool(stream, operand, tool, node, order, result)
            frame.root.ctx.leave()

        frame.root.ctx.enter()
        gather(cells, ready)

    frame.in_stream(node, begin, result.fail)
    return result


def _run_tool(
    stream: Stream, operand: Any, tool: Any, node: Node, order: Any, result: Cell
) -> None:
    def resolved(value: Any, _: BaseException | None) -> None:
        ordinal, args, kwargs = own_copy(value)
        stream.tool_call(tool, args, kwargs, node.source, ordinal, order).forward(result)

    resolve(operand, resolved)


# -- return


def return_(frame: Frame, node: Node) -> Any:
    attrs = node.attrs
    result = as_cell(frame.operand(attrs["value"]))
    if frame.carried is not None:
        carried = {name: _whole(frame, operand) for name, operand in attrs["vars"].items()}
        frame.end_pass(result, carried, frame.operand(attrs.get("kind", 0)))
        return None
    variables: dict[str, Pending] = {}
    for name, operand in attrs["vars"].items():
        found = _whole(frame, operand)
        if type(found) is Gathered:
            _keep_gathered(variables, name, found)
        elif type(operand) is Ref and operand.node in frame.plan.unsure:
            _keep_unsure(variables, name, found)
        elif type(found) is Pending:
            variables[name] = found
        else:
            variables[name] = Pending.of(name, found)
    frame.end(result, variables)
    return None


def _whole(frame: Frame, operand: Any) -> Any:
    """An operand with its metadata, if it has some."""
    return frame.values[operand.node] if type(operand) is Ref else frame.operand(operand)


def _keep_gathered(variables: dict[str, Pending], name: str, join: Gathered) -> None:
    """Keep what a join made of the branches' variable; where there are no branches, none."""
    pending = variables[name] = Pending(name)

    def missing(_: Iterable[str]) -> BaseException:
        del variables[name]
        return UnsetVariable(f"variable {name!r} is not set, the fork had no branches")

    _fill_gathered(pending, join, missing)


def _keep_unsure(variables: dict[str, Pending], name: str, found: Any) -> None:
    """Keep a variable, unless it turns out that the path that was taken does not set it."""
    source = found if type(found) is Pending else Pending.of(name, found)
    pending = variables[name] = Pending(name)

    def ready(cell: Cell) -> None:
        if cell.value is UNSET:
            del variables[name]
            pending.fail(UnsetVariable(f"variable {name!r} is not set"))
        elif type(cell.value) is Gathered:
            _keep_gathered(variables, name, cell.value)
            _fill(pending, variables[name])
        else:
            _fill(pending, source)

    source.value.then(ready)
