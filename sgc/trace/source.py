"""Finds the syntax tree of a function: from text kept at decoration, or from its file."""

from __future__ import annotations

import ast
import linecache
import os
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from sgc.lang.source import source_at
from sgc.trace.refusal import CodeText, refuse
from sgc_ir.parsing import parse_module

FunctionNode = ast.FunctionDef | ast.Lambda
_STARTED = time.time()


@dataclass(frozen=True)
class FunctionSource:
    """A function's syntax tree with real line numbers, and the text that its columns refer to."""

    node: FunctionNode
    text: CodeText


def find_source(fn: FunctionType, kept: str | None, first_line: int) -> FunctionSource:
    """The tree of `fn`; `kept` is its text from decoration, beginning at `first_line`.

    Raises Refusal for a function without source, or whose file changed after it was loaded.
    """
    code = fn.__code__
    if code.co_name.startswith("$"):  # rewritten already
        raise refuse(
            f"{code.co_name.strip('$0123456789')} is made a program inside of another one while "
            "that is compiled; decorate it outside"
        )
    if kept is not None:
        found = _from_text(code, kept, first_line)
        if found is not None:
            return found
    lines = _file_lines(fn)
    if not lines:
        raise refuse(
            f"{code.co_name} has no source text; put it into a file, or call it with sgc.call",
            place=source_at(code.co_filename, code.co_firstlineno),
        )
    _check_unchanged(fn, lines)
    found = _from_text(code, "".join(lines), 1)
    if found is None:
        raise refuse(
            f"the source of {code.co_name} was not found on its line; write it as a `def`",
            place=source_at(code.co_filename, code.co_firstlineno),
        )
    return found


def _file_lines(fn: FunctionType) -> list[str]:
    filename = fn.__code__.co_filename
    linecache.checkcache(filename)
    return linecache.getlines(filename, fn.__globals__)


def _from_text(code: CodeType, text: str, first_line: int) -> FunctionSource | None:
    tree = _parse(text)
    if tree is None:
        return None
    shift = 1 if text[:1] in (" ", "\t") else 0  # an indented text is parsed below an `if`
    for node in _candidates(tree, code, first_line - 1 - shift):
        moved = ast.increment_lineno(node, first_line - 1 - shift)
        assert isinstance(moved, FunctionNode)
        return FunctionSource(moved, CodeText(tuple(text.splitlines()), first_line))
    return None


def _parse(text: str) -> ast.Module | None:
    try:
        return parse_module("if 1:\n" + text if text[:1] in (" ", "\t") else text)
    except SyntaxError:  # a lambda inside of a statement that is cut off
        return None


def _candidates(tree: ast.Module, code: CodeType, offset: int) -> Iterator[FunctionNode]:
    line = code.co_firstlineno - offset
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first == line:
                yield node
        elif isinstance(node, ast.Lambda) and code.co_name == "<lambda>":
            if node.lineno == line and _is_body_of(node, code, offset):
                yield node


def _is_body_of(node: ast.Lambda, code: CodeType, offset: int) -> bool:
    body = node.body
    span = (body.lineno + offset, (body.end_lineno or 0) + offset)
    if (*span, body.col_offset, body.end_col_offset) in set(code.co_positions()):
        return True
    # From Python 3.12 on, code that only returns a constant has no position of its own.
    names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return (
        isinstance(body, ast.Constant)
        and names == list(code.co_varnames[: len(names)])
        and any(type(c) is type(body.value) and c == body.value for c in code.co_consts)
    )


# -- which code is the user's -----------------------------------------------------------------


@lru_cache(maxsize=1)
def _library_roots() -> tuple[str, ...]:
    import sgc_ir

    names = ("stdlib", "platstdlib", "purelib", "platlib")
    roots = {os.path.realpath(p) for n in names if (p := sysconfig.get_paths().get(n))}
    sgc_root = Path(__file__).resolve().parent.parent
    own = {str(sgc_root / room) for room in ("lang", "trace", "cli")}
    own |= {str(path) for path in sgc_root.glob("*.py")}
    own.add(str(Path(sgc_ir.__file__ or "").resolve().parent))
    own |= {str(sgc_root.parent / room) for room in ("runtime", "kernels")}
    return tuple(roots | own)


@lru_cache(maxsize=4096)
def is_user_file(filename: str) -> bool:
    """Whether code of this file is rewritten: not the library's, not sgc's own, not generated."""
    if filename.startswith("<"):
        return bool(linecache.getlines(filename))  # notebook cells
    real = os.path.realpath(filename)
    return not any(real == root or real.startswith(root + os.sep) for root in _library_roots())


def is_user_function(fn: Any) -> bool:
    """Whether `fn` is a plain Python function of a file whose code is rewritten."""
    return type(fn) is FunctionType and is_user_file(fn.__code__.co_filename)


# -- files that changed after they were loaded ------------------------------------------------


def _check_unchanged(fn: FunctionType, lines: list[str]) -> None:
    code = fn.__code__
    path = code.co_filename
    if not os.path.exists(path) or _has_code("".join(lines), path, code):
        return
    if _is_newer(path, fn.__module__):
        raise refuse(
            f"{os.path.basename(path)} changed on disk after {code.co_name} was loaded; "
            "load it again",
            place=source_at(path, code.co_firstlineno),
        )


@lru_cache(maxsize=64)
def _codes(text: str, path: str) -> dict[tuple[str, int], CodeType]:
    try:
        module = compile(text, path, "exec", dont_inherit=True)
    except SyntaxError:
        return {}
    found: dict[tuple[str, int], CodeType] = {}
    todo = [module]
    while todo:
        code = todo.pop()
        found[(code.co_qualname, code.co_firstlineno)] = code
        todo.extend(c for c in code.co_consts if isinstance(c, CodeType))
    return found


def _has_code(text: str, path: str, code: CodeType) -> bool:
    other = _codes(text, path).get((code.co_qualname, code.co_firstlineno))
    return other is not None and _same(code, other)


def _same(a: CodeType, b: CodeType) -> bool:
    if (a.co_code, a.co_names, a.co_varnames) != (b.co_code, b.co_names, b.co_varnames):
        return False
    if len(a.co_consts) != len(b.co_consts):
        return False
    pairs = zip(a.co_consts, b.co_consts, strict=True)
    return all(
        _same(x, y) if isinstance(x, CodeType) and isinstance(y, CodeType) else repr(x) == repr(y)
        for x, y in pairs
    )


def _is_newer(path: str, module_name: str | None) -> bool:
    """Whether the file is younger than the loaded module, by its byte code or by the clock."""
    import sys

    module = sys.modules.get(module_name or "")
    cached = getattr(module, "__cached__", None)
    modified = os.stat(path).st_mtime
    if cached and os.path.exists(cached):
        header = Path(cached).read_bytes()[:16]
        if len(header) == 16 and header[4:8] == bytes(4):
            return int.from_bytes(header[8:12], "little") != int(modified) & 0xFFFFFFFF
    return modified > _STARTED
