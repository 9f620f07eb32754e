"""Builders for the syntax trees that the rewriter gives; names with `$` cannot meet the user's."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TypeVar

RUNTIME = "$R"  # the running tracer, see `sgc.trace.runtime`
CELLS = "$F"  # free variables of the rewritten function
RETURN_SLOT = "$ret"

BREAK = 1
CONTINUE = 2
RETURN = 3
DEAD = 4  # every path has left or failed
EXHAUSTED = 6  # of a loop: its items, or its condition, ended it
EXCEPT = 7  # the path has raised an error that a `try` may take
FELL = 5  # the paths of an `if` that ends an arm go on with those of the arm

N = TypeVar("N", bound=ast.AST)


def at(new: N, old: ast.AST) -> N:
    """`new` at the source position of `old`."""
    return ast.copy_location(new, old)


def load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def store(name: str) -> ast.Name:
    return ast.Name(name, ast.Store())


def constant(value: object) -> ast.Constant:
    return ast.Constant(value)  # type: ignore[arg-type]


def tuple_of(items: Sequence[ast.expr]) -> ast.Tuple:
    return ast.Tuple(list(items), ast.Load())


def slot(env: str, name: str, ctx: ast.expr_context | None = None) -> ast.Subscript:
    """`env["name"]`."""
    return ast.Subscript(load(env), constant(name), ctx or ast.Load())


def runtime_call(
    name: str, args: list[ast.expr], keywords: list[ast.keyword] | None = None
) -> ast.Call:
    """`$R.name(*args)`."""
    return ast.Call(ast.Attribute(load(RUNTIME), name, ast.Load()), args, keywords or [])


def no_arguments() -> ast.arguments:
    return ast.arguments(
        posonlyargs=[], args=[], vararg=None, kwonlyargs=[], kw_defaults=[], kwarg=None, defaults=[]
    )


def one_argument(name: str) -> ast.arguments:
    arguments = no_arguments()
    arguments.args.append(ast.arg(name))
    return arguments


def bare_arguments(args: ast.arguments) -> ast.arguments:
    """The same parameters without defaults and annotations."""

    def bare(arg: ast.arg | None) -> ast.arg | None:
        return None if arg is None else at(ast.arg(arg.arg), arg)

    def bares(items: list[ast.arg]) -> list[ast.arg]:
        return [at(ast.arg(a.arg), a) for a in items]

    return ast.arguments(
        posonlyargs=bares(args.posonlyargs),
        args=bares(args.args),
        vararg=bare(args.vararg),
        kwonlyargs=bares(args.kwonlyargs),
        kw_defaults=[None] * len(args.kwonlyargs),
        kwarg=bare(args.kwarg),
        defaults=[],
    )


def thunk(body: ast.expr) -> ast.Lambda:
    """`lambda: body`."""
    return at(ast.Lambda(no_arguments(), body), body)


def function(
    name: str, args: ast.arguments, body: list[ast.stmt], where: ast.AST
) -> ast.FunctionDef:
    node = ast.FunctionDef(name, args, body or [ast.Pass()], [], None)
    if "type_params" in ast.FunctionDef._fields:  # Python 3.12 on
        setattr(node, "type_params", [])  # noqa: B010
    return at(node, where)


def assign(target: ast.expr, value: ast.expr, where: ast.AST) -> ast.Assign:
    return at(ast.Assign([target], value), where)


def give(value: ast.expr, where: ast.AST) -> ast.Return:
    return at(ast.Return(value), where)
