"""Rewrites a function once per code object; see `sgc.trace.emit` for what the result looks like.

Locals become slots of an environment, bodies nested functions that return flow codes, and what
operators cannot reach calls of the runtime `$R`. Positions stay those of the source.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from sgc.lang.source import source_at
from sgc.trace import emit
from sgc.trace.refusal import refuse, register_code
from sgc.trace.rewrite_stmt import StatementRewriter
from sgc.trace.source import find_source

_FACTORY = "$make"


@dataclass(frozen=True)
class Rewritten:
    """A function of a runtime and cells that gives the native form of the rewritten function."""

    original: CodeType  # kept alive: the cache is keyed by its id
    factory: CodeType

    def make(self, runtime: Any, fn: FunctionType) -> Callable[..., Any]:
        """The rewritten `fn`, with its own globals, cells and defaults."""
        factory = FunctionType(self.factory, fn.__globals__)
        native: FunctionType = factory(runtime, Cells(fn))
        native.__defaults__ = fn.__defaults__
        native.__kwdefaults__ = fn.__kwdefaults__
        native.__name__ = fn.__name__
        native.__qualname__ = fn.__qualname__
        return native


class Cells:
    """Free variables of a function, read from its real closure cells."""

    def __init__(self, fn: FunctionType) -> None:
        names = fn.__code__.co_freevars
        self.cells = dict(zip(names, fn.__closure__ or (), strict=True))

    def __getitem__(self, name: str) -> Any:
        try:
            return self.cells[name].cell_contents
        except ValueError:
            raise NameError(
                f"cannot access free variable '{name}' where it is not associated with a value "
                "in enclosing scope"
            ) from None


_CACHE: dict[int, Rewritten] = {}


def rewrite(fn: FunctionType, kept: str | None = None, first_line: int = 1) -> Rewritten:
    """The rewritten form of `fn`; `kept` is its source text from decoration, if there is one.

    Raises Refusal for what is not compiled, with file and line.
    """
    code = fn.__code__
    found = _CACHE.get(id(code))
    if found is None:
        _check_kind(code)
        found = Rewritten(code, _compile(fn, kept, first_line))
        _CACHE[id(code)] = found
    return found


def _check_kind(code: CodeType) -> None:
    for flag, what in (
        (inspect.CO_GENERATOR, "a generator function; return a list"),
        (inspect.CO_COROUTINE, "an async function; write `def`"),
        (inspect.CO_ASYNC_GENERATOR, "an async generator; return a list"),
    ):
        if code.co_flags & flag:
            place = source_at(code.co_filename, code.co_firstlineno)
            raise refuse(f"{code.co_name} is {what}", place=place)


def _compile(fn: FunctionType, kept: str | None, first_line: int) -> CodeType:
    code = fn.__code__
    source = find_source(fn, kept, first_line)
    rewriter = StatementRewriter(
        code.co_filename, frozenset(code.co_freevars), owner_class(fn.__qualname__)
    )
    native = rewriter.define(source.node, "$native")
    arguments = emit.no_arguments()
    arguments.args += [ast.arg(emit.RUNTIME), ast.arg(emit.CELLS)]
    body = [native, emit.give(emit.load("$native"), native)]
    factory = emit.function(_FACTORY, arguments, body, native)
    module = ast.fix_missing_locations(ast.Module([factory], []))
    keep_first_lines(module)
    compiled = compile(module, code.co_filename, "exec", dont_inherit=True)
    made = next(c for c in compiled.co_consts if isinstance(c, CodeType))
    register_code(made, source.text)
    return made


def keep_first_lines(module: ast.Module) -> None:
    """Let calls of the runtime stand on the first line of what they replace: Python puts a method
    call on the line where the method's name ends."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            for part in (node.func, node.func.value):
                part.lineno = part.end_lineno = node.lineno
                part.col_offset = part.end_col_offset = node.col_offset


def owner_class(qualname: str) -> str | None:
    parts = qualname.split(".")
    return parts[-2] if len(parts) > 1 and parts[-2] != "<locals>" else None
