"""Programs that call programs: `sub(x)` becomes a graph of its own, `s.call(sub, x)` is inlined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sgc.lang.function import ProgramSpec
from sgc.trace.context import MAX_DEPTH
from sgc.trace.control import DeadPath
from sgc.trace.entries import may_be_unset
from sgc.trace.family import entry_form
from sgc.trace.form import UNKNOWN, Form, fits, form_of_annotation
from sgc.trace.handle import TracedHandle
from sgc.trace.operand import form_of, holds_spread, holds_symbol, rebuild
from sgc.trace.refusal import Refusal, refuse
from sgc.trace.region import Region
from sgc.trace.state import TracedState
from sgc.trace.stream import Stream
from sgc.trace.symbol import Symbol, is_mark, is_stream
from sgc.trace.unused import without_unused
from sgc_ir.errors import InputError
from sgc_ir.graph import MISSING, ROOT_STREAM, Graph, Param
from sgc_ir.ops import Op
from sgc_ir.types import check_value
from sgc_runtime.executor.tools import own_copy

if TYPE_CHECKING:
    from sgc.trace.context import Trace


@dataclass(eq=False)
class Callee:
    """A graph that is called: its name, and what its variables and its value are. The `unsure`
    variables may be unset, which the run decides.

    `is_done` is False while it is being traced.
    """

    name: str
    program: str
    variables: dict[str, Form] = field(default_factory=dict)
    unsure: frozenset[str] = frozenset()
    value: Form = UNKNOWN
    spec: ProgramSpec | None = None
    is_done: bool = False


def bind(
    trace: Trace, spec: ProgramSpec, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Name -> value of all parameters; types that only a run knows are checked by a node.

    Raises InputError as the live program does.
    """
    signature = spec.signature
    plain = replace(signature, params=tuple(replace(p, annotation="") for p in spec.params))
    values = plain.arguments(args, kwargs)
    free = [p.name for p in spec.params if not p.keyword_only and p.name not in spec.bound]
    given = {*free[: len(args)], *kwargs}
    for param in spec.params:
        if param.annotation and param.name in given:
            _check_type(trace, f"{spec.name}: argument {param.name}", values[param.name], param)
    return values


def _check_type(trace: Trace, label: str, value: Any, param: Param) -> None:
    if not is_stream(value) and (holds_spread(value) or holds_symbol(value)):
        if not fits(form_of(value), param.annotation):
            trace.expr("typed", value, param.annotation, label)
        return
    try:
        check_value(value, param.annotation)
    except ValueError as error:
        raise InputError(f"{label}: {error}") from None


def call_program(
    trace: Trace, spec: ProgramSpec, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> TracedHandle:
    """`sub(*args, **kwargs)`."""
    args = tuple(map(trace.runtime.own_argument, args))
    kwargs = {k: trace.runtime.own_argument(v) for k, v in kwargs.items()}
    values = bind(trace, spec, args, kwargs)
    constants = {k: v for k, v in values.items() if not _is_parameter(v)}
    given = {k: v for k, v in values.items() if k not in constants}
    forms = {p.name: _given_form(p, given[p.name]) for p in spec.params if p.name in given}
    callee = _callee(trace, spec, constants, forms)
    trace.effects += 1
    ordinal = trace.stream.take("c").lower(trace)
    attrs = {
        "callee": callee.name,
        "args": {name: trace.operand(value) for name, value in given.items()},
        "ordinal": ordinal,
    }
    node = trace.node(Op.SUB_PROGRAM, attrs)
    return TracedHandle(trace, Symbol(trace.region, node, Form("handle", target=callee)))


def _given_form(param: Param, value: Any) -> Form:
    """Form of an argument; where it is unknown, that of the type that was checked."""
    form = form_of(value)
    return form_of_annotation(param.annotation) if form == UNKNOWN else form


def _is_parameter(value: Any) -> bool:
    if isinstance(value, TracedHandle):
        return True
    if is_stream(value):
        raise refuse("a stream is passed to a sub-program, which has one of its own; use s.call")
    return is_mark(value) or holds_spread(value) or holds_symbol(value)


# -- one graph for each function, constants and forms -------------------------------------------


def _callee(
    trace: Trace, spec: ProgramSpec, constants: Mapping[str, Any], forms: Mapping[str, Form]
) -> Callee:
    fixed = tuple((name, identity(value)) for name, value in constants.items())
    key = (id(spec.fn), fixed, tuple(forms.items()))
    found = trace.callees.get(key)
    if found is not None and found.is_done:
        return found
    depth = sum(1 for c in trace.callees.values() if not c.is_done and c.program == spec.name)
    if found is not None or depth >= MAX_DEPTH:
        raise refuse(
            f"{spec.name} calls itself without end, or more than {MAX_DEPTH} deep; its recursion "
            "must end by constant arguments within that depth"
        )
    callee = trace.callees[key] = Callee(_free_name(trace, spec.name), spec.name, spec=spec)
    trace.kept.append((spec, constants))  # ids in the key stay those of these objects
    try:
        trace_graph(trace, spec, callee, constants, forms)
    except BaseException:
        del trace.callees[key]
        raise
    callee.is_done = True
    return callee


def _free_name(trace: Trace, name: str) -> str:
    """`name`, or `name.2` ... for its further graphs; the runtime shows what is before the dot."""
    taken = {callee.name for callee in trace.callees.values()} | {trace.main}
    number, free = 2, name
    while free in taken:
        free, number = f"{name}.{number}", number + 1
    return free


def identity(value: Any) -> Any:
    """What tells two constant arguments apart: type and content, or the object itself."""
    kind = type(value)
    if kind in (list, tuple):
        return kind.__name__, tuple(identity(v) for v in value)
    if kind is dict:
        return "dict", tuple((identity(k), identity(v)) for k, v in value.items())
    if kind in (str, bytes, int, float, bool, type(None)):
        return kind.__name__, repr(value)
    return "object", id(value)


@contextmanager
def _without_guards(trace: Trace, spec: ProgramSpec) -> Iterator[None]:
    """No `try` of the caller takes what the callee raises: that fails where its result is read."""
    guards, trace.guards = trace.guards, []
    try:
        yield
    except Exception as error:
        if not guards:
            raise
        raise refuse(
            f"{spec.name} raises {type(error).__name__} inside of a `try`, which would take it "
            "at another place than when it runs; call it before the `try`"
        ) from error
    finally:
        trace.guards = guards


def trace_graph(
    trace: Trace,
    spec: ProgramSpec,
    callee: Callee,
    constants: Mapping[str, Any],
    forms: Mapping[str, Form],
    params: tuple[Param, ...] | None = None,
) -> None:
    """Trace the function of `spec` into a graph of the program; fills `callee`."""
    region = Region(trace, callee.name, spec.place)
    stream = Stream(trace, region, ROOT_STREAM, f"the stream of {spec.name}")
    own = params if params is not None else _params(spec, forms)
    with _without_guards(trace, spec), trace.control.apart(), trace.inside(region, stream):
        values = {p.name: _argument(region, p, forms[p.name]) for p in own}
        given = {**own_copy(dict(constants)), **values}
        arguments = {p.name: given[p.name] for p in spec.params}
        value = _result(trace, spec, stream, arguments)
        check_result(spec, value)
        callee.value = form_of(value)
        _return(trace, spec, stream, value)
    callee.variables = {name: entry_form(entry) for name, entry in stream.variables.items()}
    callee.unsure = frozenset(n for n, entry in stream.variables.items() if may_be_unset(entry))
    nodes = without_unused(region.nodes)
    trace.graphs[callee.name] = Graph(callee.name, tuple(region.params), nodes, spec.place)


def _result(trace: Trace, spec: ProgramSpec, stream: Stream, arguments: Mapping[str, Any]) -> Any:
    """The value of the program; None where each of its paths fails."""
    try:
        return run_function(trace, spec, TracedState(stream), arguments)
    except DeadPath:
        return None


def _params(spec: ProgramSpec, forms: Mapping[str, Form]) -> tuple[Param, ...]:
    return tuple(
        replace(p, default=MISSING, keyword_only=False) for p in spec.params if p.name in forms
    )


def _argument(region: Region, param: Param, form: Form) -> Any:
    return rebuild(region.trace, region.argument(param, form), structure=True)


def _return(trace: Trace, spec: ProgramSpec, stream: Stream, value: Any) -> None:
    try:
        attrs = {"value": trace.operand(value), "vars": stream.final_variables()}
    except Refusal as refusal:
        reason = f"{spec.name} returns, or leaves in a variable: {refusal.error.reason}"
        raise refuse(reason, place=spec.place) from None
    trace.node(Op.RETURN, attrs, may_fail=False)


def run_function(
    trace: Trace, spec: ProgramSpec, state: TracedState, arguments: Mapping[str, Any]
) -> Any:
    """Run the rewritten function of a program."""
    fn = spec.fn
    receiver = getattr(fn, "__self__", None)
    function: Any = getattr(fn, "__func__", fn)
    native = trace.runtime.native(function, spec.source, spec.first_line)
    first = (state,) if receiver is None else (receiver, state)
    return trace.runtime.deeper(function, native, first, dict(arguments))


def check_result(spec: ProgramSpec, value: Any) -> None:
    """Refuse a return value that is, or holds, a branch, a handle or an iterator."""
    if is_stream(value):
        raise refuse(
            f"{spec.name} returns a branch, handle or iterator; "
            "return its variables, its text or list(...)",
            place=spec.place,
        )
    if isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            check_result(spec, item)


def inline(
    state: TracedState, program: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """`s.call(program, ...)`: the body in the stream of `state`."""
    trace = state.stream_.trace
    spec = getattr(program, "spec", None)
    if not isinstance(spec, ProgramSpec):
        raise refuse(f"s.call({program!r}); give a program made by @sgc.function")
    values = bind(trace, spec, args, kwargs)
    with trace.inside(trace.region, state.stream_):
        return run_function(trace, spec, state, values)


class Driver:
    """What `sub(x)` and `sgc.call(tool, x)` reach while compiling."""

    live = False

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def sub_program(self, program: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        return call_program(self._trace, program.spec, args, kwargs)

    def tool_call(self, tool: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        trace = self._trace
        known = trace.tools.setdefault(tool.name, tool.effect)
        if known != tool.effect:
            raise refuse(f"two tools are named {tool.name!r}; give one of them another name")
        trace.effects += 1
        attrs: dict[str, Any] = {
            "tool": tool.name,
            "effect": tool.effect,
            "args": tuple(trace.operand(a) for a in args),
            "ordinal": trace.stream.take("g").lower(trace),
        }
        if kwargs:
            attrs["kwargs"] = {name: trace.operand(value) for name, value in kwargs.items()}
        if tool.effect != "pure":
            attrs |= trace.region.after([CALLS])
        node = trace.node(Op.CALL, attrs)
        if tool.effect != "pure":
            trace.log.touch(trace.region)
            trace.region.order[CALLS] = (node,)
        return Symbol(trace.region, node)

    def first(self, count: Any, branches: Any) -> Any:
        from sgc.trace.race import first

        return first(self._trace, count, branches)


CALLS = "calls"
