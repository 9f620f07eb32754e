"""Compiles a program: runs its rewritten function on symbols and gives the recorded graph."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from sgc.lang.current import driving
from sgc.lang.function import ProgramSpec
from sgc.trace.attempts import TraceAgain
from sgc.trace.audit import audited
from sgc.trace.containers import put_content
from sgc.trace.context import Trace
from sgc.trace.form import form_of_param
from sgc.trace.refusal import Refusal, place_of
from sgc.trace.snapshot import contents, reach_of_function
from sgc.trace.subprogram import Callee, Driver, trace_graph
from sgc_ir.errors import CompileError
from sgc_ir.graph import MISSING, Graph, Program
from sgc_ir.ops import Op

_LOG = logging.getLogger("sgc")


def trace_program(spec: ProgramSpec, static: Mapping[str, Any]) -> Program:
    """The graphs of a program whose arguments `static` are constants.

    Raises CompileError, with file and line, for what is refused and for errors of the program's
    own code.
    """
    constants = {**spec.bound, **static}
    before = contents(reach_of_function(_function(spec)))
    try:
        first = _traced(spec, constants)
        _check_globals(spec, before)
        second = _traced(spec, constants)
    finally:
        for value, content in before.values():
            put_content(value, content)
    if not _are_same(first, second):
        raise CompileError(
            f"{spec.name} does different things when traced twice (random, time, global state?); "
            "pass the value as an argument, or compute it in a tool (sgc.call)",
            spec.file,
            spec.first_line,
        )
    for warning in first.notes.get("warnings", ()):
        _LOG.warning("%s", warning)
    return first


def _are_same(first: Program, second: Program) -> bool:
    """Whether two traces gave one program. Their warnings may differ: what is read once and then
    remembered is read by the first trace only."""
    plain = [replace(p, notes={**p.notes, "warnings": ()}) for p in (first, second)]
    return plain[0] == plain[1] or repr(plain[0]) == repr(plain[1])


def _function(spec: ProgramSpec) -> Any:
    return getattr(spec.fn, "__func__", spec.fn)


def _check_globals(spec: ProgramSpec, before: Mapping[int, tuple[Any, Any]]) -> None:
    after = contents(reach_of_function(_function(spec)))
    for key, (value, old) in before.items():
        if key in after and repr_ids(old) != repr_ids(after[key][1]):
            raise CompileError(
                f"{spec.name} changes a {type(value).__name__} from outside while it is traced; "
                "the change would happen once, when compiling; keep it in the program, or use a "
                "tool (sgc.call)",
                spec.file,
                spec.first_line,
            )


def repr_ids(content: Any) -> list[Any]:
    """Identities of what is in a container, to see whether it changed."""
    items: Iterable[Any] = content.items() if isinstance(content, dict) else enumerate(content)
    return [(key if isinstance(key, str | int) else id(key), id(value)) for key, value in items]


def _traced(spec: ProgramSpec, constants: Mapping[str, Any]) -> Program:
    takes_errors, strict = False, ""
    while True:
        try:
            return _traced_once(spec, constants, Trace(takes_errors, strict))
        except TraceAgain as again:
            takes_errors, strict = True, max(strict, again.strict, key=len)


def _traced_once(spec: ProgramSpec, constants: Mapping[str, Any], trace: Trace) -> Program:
    trace.main = spec.name
    params = tuple(p for p in spec.params if p.name not in constants)
    forms = {p.name: form_of_param(p, p.default is not MISSING) for p in params}
    callee = Callee(trace.main, spec.name)
    try:
        with driving(Driver(trace)), audited(trace):
            trace_graph(trace, spec, callee, constants, forms, params)
    except Refusal as refusal:
        raise refusal.error from refusal.__cause__
    except CompileError:
        raise
    except (Exception, SystemExit) as error:
        place = place_of(error.__traceback__)
        raise CompileError(
            f"{type(error).__name__} while tracing {spec.name}: {' '.join(str(error).split())}",
            place.file or spec.file,
            place.line or spec.first_line,
        ) from error
    finally:
        trace.is_active = False
    return _program(trace, spec, constants)


def _program(trace: Trace, spec: ProgramSpec, constants: Mapping[str, Any]) -> Program:
    graphs = _reachable(trace)
    nodes = [node for graph in graphs.values() for node in graph.walk()]
    called = {node.attrs["tool"] for node in nodes if node.op is Op.CALL}
    notes: dict[str, Any] = {}
    if trace.warnings:
        notes["warnings"] = list(trace.warnings)
    if constants:
        notes["bound"] = sorted(constants)
    tools = {name: effect for name, effect in trace.tools.items() if name in called}
    return Program(trace.main, graphs, spec.outputs, tools, notes)


def _reachable(trace: Trace) -> dict[str, Graph]:
    found: dict[str, Graph] = {}
    todo = [trace.main]
    while todo:
        name = todo.pop(0)
        if name not in found:
            found[name] = graph = trace.graphs[name]
            todo += [n.attrs["callee"] for n in graph.walk() if n.op is Op.SUB_PROGRAM]
    return found
