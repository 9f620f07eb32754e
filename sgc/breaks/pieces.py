"""A program's function taken apart: each statement in two forms, compiled when it is needed."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence
from functools import cached_property
from types import CodeType, FunctionType
from typing import Any

from sgc.breaks.names import names_in
from sgc.breaks.native_form import ENV, NativeForm, NotSplit
from sgc.lang.function import ProgramSpec
from sgc.lang.source import source_at
from sgc.trace import emit
from sgc.trace.env import Env
from sgc.trace.refusal import Refusal, refuse, register_code
from sgc.trace.rewrite_stmt import StatementRewriter
from sgc.trace.rewriter import Cells, keep_first_lines, owner_class
from sgc.trace.scopes import function_scope
from sgc.trace.source import find_source
from sgc_ir.graph import Source

_MADE: dict[int, CodeType] = {}  # native code by id, kept alive


def is_native_piece(code: CodeType) -> bool:
    """Whether `code` belongs to a statement, or a local function, that Python runs."""
    return id(code) in _MADE


def _note(code: CodeType) -> None:
    _MADE[id(code)] = code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _note(constant)


class Statement:
    """One statement of a body.

    Attributes:
        refused: why it is not compiled, once that is known: it is not tried again.
    """

    def __init__(self, pieces: Pieces, node: ast.stmt) -> None:
        self.pieces = pieces
        self.node = node
        self.refused: Refusal | None = None
        self._codes: dict[str, CodeType] = {}

    @property
    def place(self) -> Source:
        return source_at(self.pieces.file, self.node.lineno)

    @cached_property
    def names(self) -> frozenset[str]:
        """All names and attributes in it."""
        return names_in(self.node)

    @cached_property
    def blocks(self) -> dict[str, list[Statement]]:
        """Statements inside of it, by the name of the syntax tree's field."""
        names = ("body", "orelse", "finalbody")
        found = {n: getattr(self.node, n, None) for n in names}
        return {n: self.pieces.block(b) for n, b in found.items() if isinstance(b, list)}

    @cached_property
    def inner(self) -> list[list[Statement]]:
        """The bodies of handlers or cases."""
        parts = getattr(self.node, "handlers", None) or getattr(self.node, "cases", None) or []
        return [self.pieces.block(part.body) for part in parts]

    def traced(self) -> CodeType:
        """The rewritten form. Raises Refusal for a construct that is not compiled."""
        return self._code("traced", lambda: self.pieces.traced(self.node), True)

    def native(self, part: str = "") -> CodeType:
        """The statement, or the named part of a compound one, as Python runs it."""
        return self._code(part or "native", lambda: self.pieces.native(self.node, part), False)

    def twin(self) -> CodeType:
        """Makes the rewritten form of a local function, and stores it. Raises Refusal."""
        node = self.node
        assert isinstance(node, ast.FunctionDef), "a local function"
        return self._code("twin", lambda: self.pieces.twin(node), True)

    def _code(self, key: str, make: Callable[[], ast.FunctionDef], traced: bool) -> CodeType:
        found = self._codes.get(key)
        if found is None:
            found = self._codes[key] = self.pieces.compile(make(), traced)
        return found


class Pieces:
    """The statements of one function.

    Raises NotSplit for one that cannot run statement by statement, Refusal for one without source.
    """

    def __init__(self, spec: ProgramSpec) -> None:
        function: Any = spec.fn
        self.function: FunctionType = getattr(function, "__func__", function)
        code = self.function.__code__
        self.code, self.file = code, code.co_filename
        self.source = find_source(self.function, spec.source, spec.first_line)
        node = self.source.node
        assert isinstance(node, ast.FunctionDef), "a program is a def"
        self.scope = function_scope(node, ENV, None)
        self._free = frozenset(code.co_freevars)
        self._owner = owner_class(self.function.__qualname__)
        self._numbers = 0
        self.body = self.block(node.body)
        _check_splits(node)
        native = self._native_form()
        for statement in copy.deepcopy(node.body):  # refuses what cannot be taken apart
            native.visit(statement)
        self.reads = _reads(node)
        self.asks_handles = any(map(_asks_handles, ast.walk(node)))
        self.takes_errors = any(getattr(inner, "handlers", None) for inner in ast.walk(node))

    def block(self, body: Sequence[ast.stmt]) -> list[Statement]:
        return [Statement(self, node) for node in body]

    @property
    def parameters(self) -> list[str]:
        args = self.source.node.args
        return [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]

    # -- the two forms

    def traced(self, node: ast.stmt) -> ast.FunctionDef:
        if any(map(_deletes_attribute, ast.walk(node))):
            place = source_at(self.file, node.lineno)
            raise refuse("an attribute is deleted; Python does it", place=place)
        rewriter = StatementRewriter(self.file, self._free, self._owner)
        rewriter.scope = self.scope
        self._numbers += 1
        body = rewriter.block([copy.deepcopy(node)])
        return emit.function(f"$piece{self._numbers}", emit.no_arguments(), body, node)

    def twin(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """A local function in its rewritten form, without defaults and decorators; it is given."""
        fresh = copy.deepcopy(node)
        fresh.decorator_list, fresh.args.defaults = [], []
        fresh.args.kw_defaults = [None] * len(fresh.args.kwonlyargs)
        piece = self.traced(fresh)
        piece.body.append(emit.give(emit.slot(ENV, node.name), node))
        return piece

    def native(self, node: ast.stmt, part: str) -> ast.FunctionDef:
        form, fresh = self._native_form(), copy.deepcopy(node)
        args = emit.no_arguments()
        if part == "":
            body = form.statement(fresh)
        elif part.startswith("put"):
            args = emit.one_argument("$item")
            target = form.expr(_part(fresh, part))
            body = [emit.assign(target, emit.load("$item"), node)]
        elif part == "match":
            assert isinstance(fresh, ast.Match)
            args = emit.one_argument("$item")
            body = [_which_case(fresh, form)]
        else:
            body = [emit.give(form.expr(_part(fresh, part)), node)]
        if self.scope.globals:
            body = [emit.at(ast.Global(sorted(self.scope.globals)), node), *body]
        return emit.function("$piece", args, body, node)

    def _native_form(self) -> NativeForm:
        return NativeForm(self.scope, self._free, self._owner)

    def compile(self, piece: ast.FunctionDef, traced: bool) -> CodeType:
        """A factory of the piece, for `PieceMaker`."""
        arguments = emit.no_arguments()
        arguments.args += [ast.arg(n) for n in (emit.RUNTIME, emit.CELLS, ENV)]
        given = emit.give(emit.load(piece.name), piece)
        factory = emit.function("$make", arguments, [piece, given], piece)
        module = ast.fix_missing_locations(ast.Module([factory], []))
        if traced:
            keep_first_lines(module)
        compiled = compile(module, self.file, "exec", dont_inherit=True)
        made = next(c for c in compiled.co_consts if isinstance(c, CodeType))
        if traced:
            register_code(made, self.source.text)
        else:
            _note(made)
        return made


def _deletes_attribute(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Del)


def _asks_handles(node: ast.AST) -> bool:
    """Whether a node may read the error or usage of a sub-program, or take its error unseen."""
    if isinstance(node, ast.Attribute):
        return node.attr in ("error", "usage", "suppress")
    return getattr(node, "id", "") == "suppress"


def _check_splits(function: ast.FunctionDef) -> None:
    for node in ast.walk(function):
        if isinstance(node, ast.TryStar | ast.AsyncFor | ast.AsyncWith | ast.Await):
            raise NotSplit(f"`{type(node).__name__}` on line {node.lineno}")


class PieceMaker:
    """Makes the functions of pieces for one call of the program's function."""

    def __init__(self, pieces: Pieces, runtime: Any, env: Env) -> None:
        self._globals = pieces.function.__globals__
        self._given = runtime, Cells(pieces.function), env

    def make(self, code: CodeType) -> Callable[..., Any]:
        made: Callable[..., Any] = FunctionType(code, self._globals)(*self._given)
        return made


def _part(node: Any, part: str) -> ast.expr:
    """The expression that `part` names: "test", "iter", "subject", "ctx0", "type0" ..."""
    name = part.rstrip("0123456789")
    number = int(part[len(name) :] or 0)
    match name:
        case "put":
            found = node.target if hasattr(node, "target") else node.items[number].optional_vars
        case "ctx":
            found = node.items[number].context_expr
        case "type":
            found = node.handlers[number].type
        case _:
            found = getattr(node, name)
    assert isinstance(found, ast.expr)
    return found


def _which_case(node: ast.Match, form: NativeForm) -> ast.stmt:
    """A `match` that stores what its patterns capture and gives the number of the case."""
    cases = []
    for number, case in enumerate(node.cases):
        names = _captured(case.pattern)
        stores: list[ast.stmt] = [
            emit.assign(emit.slot(ENV, name, ast.Store()), emit.load(f"$m_{name}"), node)
            for name in names
        ]
        for inner in ast.walk(case.pattern):
            _rename(inner)
        guard = None
        if case.guard is not None:
            puts = [_put(name) for name in names]
            test = form.expr(case.guard)
            guard = ast.BoolOp(ast.And(), [emit.tuple_of([*puts, emit.constant(0)]), test])
        body = [*stores, emit.give(emit.constant(number), node)]
        cases.append(ast.match_case(form.visit(case.pattern), guard, body))
    return emit.at(ast.Match(emit.load("$item"), cases), node)


def _put(name: str) -> ast.expr:
    put = ast.Attribute(emit.load(ENV), "put", ast.Load())
    return ast.Call(put, [emit.constant(name), emit.load(f"$m_{name}")], [])


def _captured(pattern: ast.pattern) -> list[str]:
    found = []
    for node in ast.walk(pattern):
        name = getattr(node, "rest" if isinstance(node, ast.MatchMapping) else "name", None)
        if isinstance(node, ast.MatchAs | ast.MatchStar | ast.MatchMapping) and name:
            found.append(name)
    return list(dict.fromkeys(found))


def _rename(node: ast.AST) -> None:
    for field in ("rest", "name"):
        name = getattr(node, field, None)
        if isinstance(node, ast.MatchAs | ast.MatchStar | ast.MatchMapping) and name:
            setattr(node, field, f"$m_{name}")


def _reads(node: ast.AST) -> dict[str, list[int]]:
    """Local name -> lines on which it is read."""
    found: dict[str, list[int]] = {}
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
            found.setdefault(inner.id, []).append(inner.lineno)
        elif isinstance(inner, ast.AugAssign) and isinstance(inner.target, ast.Name):
            found.setdefault(inner.target.id, []).append(inner.lineno)
    return found


__all__ = ["NotSplit", "PieceMaker", "Pieces", "Statement", "is_native_piece"]
