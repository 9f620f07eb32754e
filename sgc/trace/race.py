"""`sgc.first` while compiling: a First node among branches or sub-programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sgc.lang.race import check_effects
from sgc.trace.entries import may_be_unset
from sgc.trace.family import Branch, Family, RunTimeForks, entry_form
from sgc.trace.forks import StaticForks, writer
from sgc.trace.form import UNKNOWN, Form
from sgc.trace.handle import TracedHandle
from sgc.trace.refusal import refuse
from sgc.trace.state import TracedState
from sgc.trace.stream import Stream
from sgc.trace.symbol import Symbol, is_mark
from sgc_ir.errors import CompileError, InputError
from sgc_ir.graph import Node, Ref, iter_refs
from sgc_ir.ops import Op
from sgc_runtime.executor.race import check_count
from sgc_runtime.executor.stream import is_unnamed

if TYPE_CHECKING:
    from sgc.trace.context import Trace


def first(trace: Trace, count: Any, branches: Any) -> Symbol:
    """`sgc.first(count, branches)`."""
    if isinstance(branches, RunTimeForks):
        among, item = _family(trace, branches.family)
    elif isinstance(branches, StaticForks):
        among, item = _branches(trace, list(branches))
        trace.log.touch(branches)
        branches._is_joined = True
    elif type(branches) is Symbol:
        among, item = _handle_list(trace, branches)
    else:
        among, item = _listed(trace, branches)
    _check(count, among)
    trace.effects += 1
    attrs = {
        "count": trace.operand(count),
        "ordinal": trace.stream.take("g").lower(trace),
        **among,
        **_reads(trace, among),
    }
    node = trace.node(Op.FIRST, attrs)
    return Symbol(trace.region, node, Form("list", item))


def _reads(trace: Trace, among: dict[str, Any]) -> dict[str, Any]:
    """What was read before of the branches or handles, by nodes that run whenever the race does."""
    members = {ref.node for ref in iter_refs((among.get("among"), among.get("fork")))}
    region = trace.region
    nodes = [node for node in region.nodes if _reads_one(node, members)]
    found = tuple(Ref(node.id) for node in nodes if region.is_there(node.id))
    return {"reads": found} if found else {}


def _reads_one(node: Node, members: set[int]) -> bool:
    of = node.attrs.get("of")
    if node.op is Op.VARIABLE:
        return node.stream in members or (isinstance(of, Ref) and of.node in members)
    walked = (node.attrs["over"], node.attrs["captures"]) if node.op is Op.LOOP else ()
    return any(ref.node in members for ref in iter_refs(walked))


def _check(count: Any, among: dict[str, Any]) -> None:
    if is_mark(count):
        return
    members = among.get("among")
    try:
        check_count(count, len(members) if isinstance(members, tuple) else max(count, 1))
    except (InputError, TypeError) as error:
        raise refuse(f"sgc.{error}") from None


def _listed(trace: Trace, branches: Any) -> tuple[dict[str, Any], Form]:
    members = list(branches) if isinstance(branches, list | tuple) else [branches]
    if members and all(isinstance(m, TracedHandle) for m in members):
        return _handles(trace, members)
    if members and all(isinstance(m, TracedState) for m in members):
        return _branches(trace, members)
    raise refuse(
        "sgc.first takes branches of a fork, or sub-programs, not both and nothing else"
        if members
        else "sgc.first among no branches"
    )


# -- sub-programs


def _handles(trace: Trace, handles: list[TracedHandle]) -> tuple[dict[str, Any], Form]:
    _check_twice([(h.symbol.region, h.symbol.node) for h in handles])
    for handle in handles:
        _check_program(handle.symbol.form)
    forms = [handle.symbol.form.target.value for handle in handles]
    item = forms[0] if all(form == forms[0] for form in forms) else UNKNOWN
    return {"among": tuple(trace.ref(handle.symbol) for handle in handles)}, item


def _handle_list(trace: Trace, listed: Symbol) -> tuple[dict[str, Any], Form]:
    form = listed.form.item
    if form is None or form.kind != "handle":
        raise refuse("sgc.first among a run-time value; give branches of a fork, or sub-programs")
    _check_program(form)
    return {"among": trace.ref(listed)}, form.target.value


def _check_program(form: Form) -> None:
    spec = form.target.spec
    try:
        if spec is not None:
            check_effects(spec)
    except CompileError as error:
        raise refuse(error.reason) from None


# -- branches


def _branches(trace: Trace, states: list[Any]) -> tuple[dict[str, Any], Form]:
    streams: list[Stream] = []
    for state in states:
        if isinstance(state, Branch):
            raise refuse("one branch of a fork of run-time width; give the whole fork")
        stream = state.stream_
        stream.check_open()
        if stream is trace.stream or stream.opener < 0:
            raise refuse("sgc.first among the stream itself; give branches of a fork of it")
        streams.append(stream)
    _check_twice(streams)
    gained = [_gained(stream) for stream in streams]
    results = tuple({n: writer(trace, e) for n, e in found.items()} for found in gained)
    fields = [tuple((n, entry_form(e)) for n, e in found.items()) for found in gained]
    same = fields[0] if all(f == fields[0] for f in fields) else ()
    for stream in streams:
        trace.log.touch(stream)
        stream.is_joined = True
    among = tuple(Ref(stream.opener) for stream in streams)
    return {"among": among, "results": results}, Form("dict", fields=same)


def _gained(stream: Stream) -> dict[str, Any]:
    """What a branch gives: the variables that it has set."""
    names = [n for n in stream.variables if n not in stream.inherited and not is_unnamed(n)]
    if not names:
        raise refuse(f"{stream.label} has no variables of its own; name its gens")
    found = {name: stream.entry(name) for name in names}
    unsure = next((name for name, entry in found.items() if may_be_unset(entry)), None)
    if unsure is not None:
        raise refuse(f"variable {unsure!r} may be unset in {stream.label}; set it before")
    return found


def _check_twice(members: list[Any]) -> None:
    if any(a is b or a == b for i, a in enumerate(members) for b in members[:i]):
        raise refuse("sgc.first is given a branch twice")


def _family(trace: Trace, family: Family) -> tuple[dict[str, Any], Form]:
    family.parent.check_open()
    if family.region is not trace.region or family.parent is not trace.stream:
        raise refuse("sgc.first among a fork of run-time width of another stream, or outside of it")
    if family.is_joined:
        raise refuse("these branches were joined already; a join runs once")
    names = [n for n in family.written if n not in family.base and not is_unnamed(n)]
    if not names:
        raise refuse("the branches have no variables of their own; name their gens")
    unsure = next((name for name in names if name not in family.sure), None)
    if unsure is not None:
        raise refuse(f"variable {unsure!r} is not set in each branch; set it in all of them")
    trace.log.touch(family)
    family.is_joined = True
    fields = tuple((name, family.written[name]) for name in names)
    return {"fork": Ref(family.symbol.node)}, Form("dict", fields=fields)
