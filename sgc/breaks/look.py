"""Finds all parts of a program that are not compiled, without running it.

The program is traced statement by statement, with its arguments unknown. What is refused is left
out, and what it would assign is unknown from there on; a refused compound statement is looked into.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Any

from sgc.breaks.live_trace import LiveTrace
from sgc.breaks.pieces import NotSplit, PieceMaker, Pieces, Statement
from sgc.breaks.recording import Recording
from sgc.breaks.report import Break
from sgc.lang.function import ProgramSpec
from sgc.lang.reach import reach
from sgc.lang.source import source_at
from sgc.trace.entries import Written
from sgc.trace.env import Env
from sgc.trace.form import UNKNOWN, form_of_param
from sgc.trace.operand import rebuild
from sgc.trace.refusal import Refusal
from sgc.trace.region import Region
from sgc.trace.state import TracedState
from sgc.trace.stream import Stream
from sgc.trace.subprogram import Driver
from sgc.trace.symbol import Poison, Symbol, is_stream
from sgc_ir.errors import CompileError
from sgc_ir.graph import MISSING, ROOT_STREAM, Param
from sgc_runtime.executor.tools import own_copy

# What earlier breaks may have brought about: they may have set it.
_FOLLOWS = re.compile(r"variable '.*' is not set|local variable '|is not set on every path")
_LEFT_OUT = "what it is given by is not compiled"
_COMPOUND = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match)


def find_breaks(spec: ProgramSpec) -> list[Break]:
    """The breaks of a program and of the programs that it reaches where these have some, by file
    and line. Of several reasons on a line the first one found is given."""
    found: dict[tuple[str, int], Break] = {}
    todo, seen = [spec], {id(spec.fn)}
    reached = [p.spec for p in reach(spec.fn, spec.bound.values()).values if hasattr(p, "spec")]
    while todo:
        for one in _Look(todo.pop()).breaks():
            found.setdefault((one.file, one.line), one)
            for other in reached:
                if id(other.fn) not in seen and _holds(other, one):
                    seen.add(id(other.fn))
                    todo.append(other)
    return sorted(found.values(), key=lambda b: (b.file, b.line))


def _holds(spec: ProgramSpec, found: Break) -> bool:
    lines = (spec.source or "").count("\n")
    return spec.file == found.file and spec.first_line <= found.line <= spec.first_line + lines


class _Look:
    """One look through one program."""

    def __init__(self, spec: ProgramSpec) -> None:
        self._spec = spec
        self._found: list[Break] = []
        self._unknown = 0
        self._is_elsewhere = False  # the last break stands in another function

    def breaks(self) -> list[Break]:
        try:
            pieces = Pieces(self._spec)
        except NotSplit as reason:
            self._note(self._spec.file, self._spec.first_line, str(reason))
            return self._found
        except Refusal as refusal:
            self._note_error(refusal.error, self._spec.file, self._spec.first_line)
            return self._found
        self._begin(pieces)
        try:
            self._block(pieces.body)
        finally:
            self._recording.leave()
            self._trace.is_active = False
        return self._found

    def _begin(self, pieces: Pieces) -> None:
        spec, trace = self._spec, LiveTrace(self._spec.name)
        region = Region(trace, spec.name, spec.place)
        stream = Stream(trace, region, ROOT_STREAM, f"the stream of {spec.name}")
        env = Env({}, trace.log)
        trace.care(pieces.takes_errors)
        self._trace, self._region, self._env = trace, region, env
        self._pieces = pieces
        self._maker = PieceMaker(pieces, trace.runtime, env)
        self._recording = Recording(trace, region, pieces.function, env)
        self._recording.begin(stream, Driver(trace))
        first: list[Any] = [TracedState(stream)]
        receiver = getattr(spec.fn, "__self__", None)
        if receiver is not None:
            first.insert(0, receiver)
        env.slots.update(zip(pieces.parameters, first, strict=False))
        env.slots.update(own_copy(dict(spec.bound)))
        for param in spec.params:
            if param.name not in spec.bound:
                symbol = region.argument(param, form_of_param(param, param.default is not MISSING))
                env.slots[param.name] = rebuild(trace, symbol, structure=True)

    # -- statements

    def _block(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            failure = self._attempt(statement)
            if failure is None:
                if self._recording.code:
                    self._recording.code = None
                    return
                continue
            place = statement.place
            error = failure.error if isinstance(failure, Refusal) else failure
            self._note_error(error, place.file, place.line)
            self._is_elsewhere = not self._is_here(error)
            self._look_inside(statement)

    def _attempt(self, statement: Statement) -> Exception | Refusal | None:
        try:
            piece = self._maker.make(statement.traced())
        except Refusal as refusal:
            return refusal
        return self._recording.attempt(piece)

    def _look_inside(self, statement: Statement) -> None:
        """Leave the statement out; the bodies in it are looked through, each once."""
        node = statement.node
        if isinstance(node, _COMPOUND):
            self._forget(_own_parts(node))
            for block in (*statement.blocks.values(), *statement.inner):
                self._block(block)
        self._forget([node])

    def _forget(self, nodes: Sequence[ast.AST]) -> None:
        """What is assigned there, and which variables are written, is not known."""
        found = [inner for one in nodes for inner in ast.walk(one)]
        added_to = {id(node.target) for node in found if isinstance(node, ast.AugAssign)}
        for node in found:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                is_same = id(node) in added_to and is_stream(self._env.slots.get(node.id))
                if not is_same:  # `s += x` leaves the state `s` what it is
                    self._env.slots[node.id] = self._value()
            elif isinstance(node, ast.ExceptHandler) and node.name:
                self._env.slots[node.name] = self._value()
            elif isinstance(node, ast.Call):
                self._forget_written(node)

    def _forget_written(self, call: ast.Call) -> None:
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        first = call.args[0] if call.args else None
        is_writer = name in ("gen", "select", "set", "var_scope")
        if is_writer and isinstance(first, ast.Constant) and isinstance(first.value, str):
            symbol = self._anything()
            for stream in self._trace.streams:
                if stream.region is self._region:
                    entry = Written(self._region, symbol.node, UNKNOWN)
                    stream.variables.setdefault(first.value, entry)

    def _is_here(self, error: Exception) -> bool:
        """Whether an error stands in the function itself, not in one that it calls."""
        line, node = getattr(error, "line", None), self._pieces.source.node
        is_inside = line is None or node.lineno <= line <= (node.end_lineno or line)
        return is_inside and getattr(error, "file", None) in (None, self._spec.file)

    def _value(self) -> Any:
        """What a local is that was assigned by what was left out."""
        return Poison(_LEFT_OUT) if self._is_elsewhere else self._anything()

    def _anything(self) -> Symbol:
        self._unknown += 1
        return self._region.argument(Param(f"unknown{self._unknown}"), UNKNOWN)

    # -- the report

    def _note_error(self, error: Exception, file: str, line: int) -> None:
        if isinstance(error, CompileError):
            self._note(error.file or file, error.line or line, error.reason)
        else:
            self._note(file, line, f"{type(error).__name__} while it was traced: {error}")

    def _note(self, file: str, line: int, reason: str) -> None:
        if reason.endswith(_LEFT_OUT):
            return
        if not self._found or _FOLLOWS.search(reason) is None:
            self._found.append(Break(source_at(file, line).file, line, reason))


def _own_parts(node: ast.AST) -> list[ast.AST]:
    """The parts of a compound statement before its bodies."""
    return list(_headers(node))


def _headers(node: ast.AST) -> Iterator[ast.AST]:
    for name in ("target", "iter", "test", "items", "subject"):
        found = getattr(node, name, None)
        if isinstance(found, ast.AST):
            yield found
        elif isinstance(found, list):
            yield from found
