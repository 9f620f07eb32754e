"""Puts calls that are not compiled into random programs, at places that a seed chooses."""

from __future__ import annotations

import ast
import random

_WRAPS = ("copy.copy({})", "random.choice([{}])", "next(iter([{}]))")


class _Wrapper(ast.NodeTransformer):
    def __init__(self, seed: int, share: float) -> None:
        self._draw = random.Random(seed)
        self._share = share

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        is_read = isinstance(node.ctx, ast.Load) and isinstance(node.slice, ast.Constant)
        if not is_read or self._draw.random() >= self._share:
            return node
        wrap = self._draw.choice(_WRAPS)
        return ast.parse(wrap.format(ast.unparse(node)), mode="eval").body

    def visit_Expr(self, node: ast.Expr) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        if self._draw.random() >= self._share / 2:
            return node
        return [*ast.parse("random.random()").body, node]

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        if self._draw.random() >= self._share / 2:
            return node
        return [*ast.parse("random.random()").body, node]


def with_odd_calls(text: str, seed: int, share: float = 0.12) -> str:
    """`text` with some of its readings wrapped, and some statements that Python must run."""
    tree = ast.parse(text)
    wrapper = _Wrapper(seed, share)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            node.body = [wrapper.visit(inner) for inner in node.body]
            node.body = [s for inner in node.body for s in _listed(inner)]
    made = ast.unparse(ast.fix_missing_locations(tree))
    return f"import copy\nimport random\n{made}\n"


def _listed(node: ast.stmt | list[ast.stmt]) -> list[ast.stmt]:
    return node if isinstance(node, list) else [node]
