"""Statements as Python runs them, over the locals of the tracer: names become slots of `$E`."""

from __future__ import annotations

import ast
from typing import Any

from sgc.trace import emit
from sgc.trace.scopes import Scope, comprehension_scope, function_scope

ENV = "$E"
_SEES_FRAMES = frozenset(("locals", "vars", "dir", "eval", "exec", "super", "__class__"))


class NotSplit(Exception):
    """A function that looks at its own frame, so that it cannot run piece by piece."""


class NativeForm(ast.NodeTransformer):
    """Rewrites names of the function `root`, and leaves everything else to Python."""

    def __init__(self, root: Scope, free: frozenset[str], owner_class: str | None) -> None:
        self._root = root
        self._scope = root
        self._free = free
        self._owner = (owner_class or "").lstrip("_")
        self._numbers = 0

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        """One simple statement; it gives a flow code where it leaves."""
        match node:
            case ast.Return(value):
                given = emit.constant(None) if value is None else self.expr(value)
                place = emit.slot(ENV, emit.RETURN_SLOT, ast.Store())
                return [
                    emit.assign(place, given, node),
                    emit.give(emit.constant(emit.RETURN), node),
                ]
            case ast.Break():
                return [emit.give(emit.constant(emit.BREAK), node)]
            case ast.Continue():
                return [emit.give(emit.constant(emit.CONTINUE), node)]
        found = self.visit(node)
        return found if isinstance(found, list) else [found]

    def expr(self, node: ast.expr) -> ast.expr:
        """An expression."""
        made: ast.expr = self.visit(node)
        return made

    def fresh(self, stem: str) -> str:
        self._numbers += 1
        return f"${stem}{self._numbers}"

    # -- names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        name = node.id
        owner = self._scope.owner(name)
        if owner is self._root:
            return emit.at(emit.slot(ENV, name, node.ctx), node)
        if owner is not None or self._scope.is_declared_global(name):
            return node
        if name in self._free:
            if not isinstance(node.ctx, ast.Load):
                raise NotSplit(f"`nonlocal {name}` is assigned")
            return emit.at(emit.slot(emit.CELLS, name), node)
        if name in _SEES_FRAMES:
            raise NotSplit(f"`{name}` looks at the function's own names")
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        name = node.attr
        if self._owner and name.startswith("__") and not name.endswith("__"):
            name = f"_{self._owner}{name}"
        return emit.at(ast.Attribute(self.expr(node.value), name, node.ctx), node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.expr:
        value = self.expr(node.value)
        if self._scope.function().owner(node.target.id) is not self._root:
            return emit.at(ast.NamedExpr(node.target, value), node)
        put = ast.Attribute(emit.load(ENV), "put", ast.Load())
        return emit.at(ast.Call(put, [emit.constant(node.target.id), value], []), node)

    # -- functions and comprehensions

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        args = self._arguments(node.args)
        outer, self._scope = self._scope, function_scope(node, "", self._scope)
        body = self.expr(node.body)
        self._scope = outer
        return emit.at(ast.Lambda(args, body), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        args = self._arguments(node.args)
        decorators = [self.expr(d) for d in node.decorator_list]
        outer, self._scope = self._scope, function_scope(node, "", self._scope)
        body: list[ast.stmt] = []
        for inner in node.body:
            found = self.visit(inner)
            body += found if isinstance(found, list) else [found] if found is not None else []
        self._scope = outer
        made = emit.function(node.name, args, body, node)
        made.decorator_list = decorators
        if self._scope.owner(node.name) is not self._root:
            return made
        place = emit.slot(ENV, node.name, ast.Store())
        return [made, emit.assign(place, emit.load(node.name), node)]

    def _arguments(self, args: ast.arguments) -> ast.arguments:
        made = emit.bare_arguments(args)
        made.defaults = [self.expr(d) for d in args.defaults]
        made.kw_defaults = [None if d is None else self.expr(d) for d in args.kw_defaults]
        return made

    def visit_Nonlocal(self, node: ast.Nonlocal) -> Any:
        kept = [n for n in node.names if self._scope.owner(n) is not self._root]
        return emit.at(ast.Nonlocal(kept), node) if kept else emit.at(ast.Pass(), node)

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        raise NotSplit(f"class {node.name} is made inside of the program")

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> Any:
        raise NotSplit(f"async function {node.name} is made inside of the program")

    def _comprehension(self, node: Any) -> Any:
        first = self.expr(node.generators[0].iter)
        outer, self._scope = self._scope, comprehension_scope(node.generators, "", self._scope)
        generators = []
        for i, generator in enumerate(node.generators):
            source = self.expr(generator.iter) if i else first
            target = self.expr(generator.target)
            tests = [self.expr(test) for test in generator.ifs]
            generators.append(ast.comprehension(target, source, tests, generator.is_async))
        if isinstance(node, ast.DictComp):
            made: Any = ast.DictComp(self.expr(node.key), self.expr(node.value), generators)
        else:
            made = type(node)(self.expr(node.elt), generators)
        self._scope = outer
        return emit.at(made, node)

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = _comprehension

    # -- statements that bind names by themselves

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is None:
            return emit.at(ast.Pass(), node)
        return emit.at(ast.Assign([self.expr(node.target)], self.expr(node.value)), node)

    def _import(self, node: Any) -> Any:
        if self._scope is not self._root:
            return node
        made: list[ast.stmt] = []
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            dotted = isinstance(node, ast.Import) and alias.asname is None and "." in alias.name
            native = name if dotted else self.fresh("v")
            one = ast.alias(alias.name, None if dotted else native)
            if isinstance(node, ast.Import):
                made.append(emit.at(ast.Import([one]), node))
            else:
                made.append(emit.at(ast.ImportFrom(node.module, [one], node.level), node))
            made.append(
                emit.assign(emit.slot(ENV, name, ast.Store()), emit.load(native), node)
                if self._root.owner(name) is self._root
                else emit.assign(emit.store(name), emit.load(native), node)
            )
        return made

    visit_Import = visit_ImportFrom = _import
