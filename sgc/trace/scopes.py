"""Which scope binds each name of a function: its own, an outer function's, a cell, a global."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field


@dataclass
class Scope:
    """The names of one function, lambda or comprehension; its slots live in variable `env`."""

    env: str
    names: frozenset[str]
    parent: Scope | None = None
    is_comprehension: bool = False
    globals: frozenset[str] = frozenset()
    nonlocals: frozenset[str] = frozenset()

    def owner(self, name: str) -> Scope | None:
        """The scope whose slots hold `name`, or None for a free or global name."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.globals:
                return None
            if name in scope.names and name not in scope.nonlocals:
                return scope
            scope = scope.parent
        return None

    def is_declared_global(self, name: str) -> bool:
        """Whether the nearest function that speaks of `name` declares it `global`."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.globals:
                return True
            if name in scope.names and name not in scope.nonlocals:
                return False
            scope = scope.parent
        return False

    def function(self) -> Scope:
        """The scope itself, or the function around a comprehension (walrus targets go there)."""
        scope = self
        while scope.is_comprehension and scope.parent is not None:
            scope = scope.parent
        return scope


@dataclass
class _Found:
    names: set[str] = field(default_factory=set)
    globals: set[str] = field(default_factory=set)
    nonlocals: set[str] = field(default_factory=set)


def function_scope(node: ast.FunctionDef | ast.Lambda, env: str, parent: Scope | None) -> Scope:
    """The scope of a function or lambda."""
    binder = _Binder()
    for name in parameter_names(node.args):
        binder.found.names.add(name)
    for statement in node.body if isinstance(node.body, list) else [node.body]:
        binder.visit(statement)
    found = binder.found
    names = frozenset(found.names - found.globals)
    return Scope(env, names, parent, False, frozenset(found.globals), frozenset(found.nonlocals))


def comprehension_scope(generators: list[ast.comprehension], env: str, parent: Scope) -> Scope:
    """The scope of a comprehension: its targets."""
    binder = _Binder()
    for generator in generators:
        binder.visit(generator.target)
    return Scope(env, frozenset(binder.found.names), parent, is_comprehension=True)


def parameter_names(args: ast.arguments) -> list[str]:
    """All parameter names in order."""
    plain = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    stars = [a for a in (args.vararg, args.kwarg) if a is not None]
    return [a.arg for a in (*plain, *stars)]


class _Binder(ast.NodeVisitor):
    """Collects the names that statements bind in their own function."""

    def __init__(self) -> None:
        self.found = _Found()

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.found.names.add(node.id)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.found.names.add(node.name)
        for expression in (*node.decorator_list, *_defaults(node.args)):
            self.visit(expression)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.found.names.add(node.name)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.found.names.add(node.name)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        for expression in _defaults(node.args):
            self.visit(expression)

    def visit_ListComp(self, node: ast.ListComp) -> None:
        self._comprehension(node)

    visit_SetComp = visit_GeneratorExp = visit_DictComp = visit_ListComp  # type: ignore[assignment]

    def _comprehension(self, node: ast.AST) -> None:
        for inner in _own_nodes(node):
            if isinstance(inner, ast.NamedExpr):
                self.found.names.add(inner.target.id)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.found.names.add(alias.asname or alias.name.partition(".")[0])

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self.found.names.add(alias.asname or alias.name)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.found.names.add(node.name)
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global) -> None:
        self.found.globals.update(node.names)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self.found.nonlocals.update(node.names)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        self._capture(node.name, node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        self._capture(node.name, node)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self._capture(node.rest, node)

    def _capture(self, name: str | None, node: ast.AST) -> None:
        if name:
            self.found.names.add(name)
        self.generic_visit(node)


def _defaults(args: ast.arguments) -> list[ast.expr]:
    return [*args.defaults, *(d for d in args.kw_defaults if d is not None)]


def _own_nodes(node: ast.AST) -> list[ast.AST]:
    """Nodes below `node` that belong to the same function (comprehensions do, lambdas do not)."""
    found: list[ast.AST] = []
    for child in ast.iter_child_nodes(node):
        found.append(child)
        if not isinstance(child, ast.Lambda):
            found.extend(_own_nodes(child))
    return found
