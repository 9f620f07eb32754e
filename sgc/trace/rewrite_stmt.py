"""Rewrites statements: bodies become nested functions that return flow codes."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from sgc.trace import emit
from sgc.trace.rewrite_expr import BINARY, ExpressionRewriter
from sgc.trace.rewrite_match import pattern

_ARMS = ("then", "elif", "case")
_REFUSED = {
    ast.ClassDef: "a class inside of a program is not compiled; move it to the module",
    ast.AsyncFunctionDef: "an async function is not compiled; write `def`",
    ast.AsyncFor: "`async for` is not compiled; write `for`",
    ast.AsyncWith: "`async with` is not compiled; write `with`",
    ast.TryStar: "`except*` is not compiled; write `except`",
}


class StatementRewriter(ExpressionRewriter):
    """Rewrites one function with all functions inside of it."""

    def __init__(self, file: str, free: frozenset[str], owner_class: str | None) -> None:
        super().__init__(file, free, owner_class)
        self._last: set[int] = set()  # ids of `if` statements that end an arm
        self._statements: dict[type, Callable[[Any], list[ast.stmt]]] = {
            ast.Expr: lambda node: [ast.Expr(self.expr(node.value))],
            ast.Pass: lambda node: [node],
            ast.Assign: self._assign,
            ast.AnnAssign: self._annotated,
            ast.AugAssign: self._augmented,
            ast.Delete: self._delete,
            ast.Return: self._return,
            ast.Break: lambda node: [emit.give(emit.constant(emit.BREAK), node)],
            ast.Continue: lambda node: [emit.give(emit.constant(emit.CONTINUE), node)],
            ast.If: self._if_statement,
            ast.For: self._for,
            ast.While: self._while,
            ast.With: self._with,
            ast.Try: self._try,
            ast.Match: self._match,
            ast.Raise: self._raise,
            ast.Assert: self._assert,
            ast.FunctionDef: self._function,
            ast.Import: self._import,
            ast.ImportFrom: self._import,
            ast.Global: lambda node: [],
            ast.Nonlocal: lambda node: [],
        }

    def function_body(self, node: ast.FunctionDef | ast.Lambda) -> list[ast.stmt]:
        if isinstance(node, ast.Lambda):
            return self.block([emit.at(ast.Return(node.body), node.body)])
        if getattr(node, "type_params", None):
            raise self.refuse(node, "type parameters are not compiled; leave `[...]` out")
        return self.block(node.body)

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for node in body:
            self._hoisted.append([])
            done = self._statement(node)
            out += [*self._hoisted.pop(), *done]
        return out

    def _statement(self, node: ast.stmt) -> list[ast.stmt]:
        handler = self._statements.get(type(node))
        if handler is None:
            kind = type(node).__name__.lower()
            raise self.refuse(node, _REFUSED.get(type(node), f"`{kind}` is not compiled"))
        return [
            emit.at(made, node) if not hasattr(made, "lineno") else made for made in handler(node)
        ]

    def _body(self, stem: str, body: list[ast.stmt], where: ast.AST) -> tuple[ast.stmt, ast.expr]:
        """A nested function with the statements, and its name; None where there are none."""
        if not body:
            return ast.Pass(), emit.constant(None)
        name = self.fresh(stem)
        if stem in _ARMS and isinstance(body[-1], ast.If):
            self._last.add(id(body[-1]))
        return emit.function(name, emit.no_arguments(), self.block(body), where), emit.load(name)

    def _flow(self, call: ast.expr, where: ast.AST) -> list[ast.stmt]:
        """Run a construct and leave this body with its code."""
        code = self.fresh("code")
        leave = emit.at(ast.If(emit.load(code), [emit.give(emit.load(code), where)], []), where)
        return [emit.assign(emit.store(code), call, where), leave]

    # -- assignments ----------------------------------------------------------------------------

    def _assign(self, node: ast.Assign) -> list[ast.stmt]:
        value = self.expr(node.value)
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            return self.assign_to(node.targets[0], value)
        name = self.fresh("v")
        out: list[ast.stmt] = [emit.assign(emit.store(name), value, node)]
        for target in node.targets:
            out += self.assign_to(target, emit.at(emit.load(name), node))
        return out

    def _annotated(self, node: ast.AnnAssign) -> list[ast.stmt]:
        if node.value is None:
            return []
        return self._assign(emit.at(ast.Assign([node.target], node.value), node))

    def assign_to(self, target: ast.expr, value: ast.expr) -> list[ast.stmt]:
        match target:
            case ast.Name(name):
                place = emit.slot(self.env_for_store(name, target), name, ast.Store())
                return [emit.assign(emit.at(place, target), value, target)]
            case ast.Attribute(owner, name):
                args = [self.expr(owner), emit.constant(self.mangle(name)), value]
                return [emit.at(ast.Expr(self.runtime("set_attribute", args, target)), target)]
            case ast.Subscript(owner, index):
                args = [self.expr(owner), self.expr(index), value]
                return [emit.at(ast.Expr(self.runtime("set_item", args, target)), target)]
            case ast.Tuple(items) | ast.List(items):
                return self._unpack(items, value, target)
        raise AssertionError(f"unknown target {type(target).__name__}")

    def _unpack(self, items: list[ast.expr], value: ast.expr, target: ast.expr) -> list[ast.stmt]:
        stars = [i for i, item in enumerate(items) if isinstance(item, ast.Starred)]
        star = emit.constant(stars[0] if stars else None)
        parts = self.runtime("unpack", [value, emit.constant(len(items)), star], target)
        names = [self.fresh("v") for _ in items]
        stores = ast.Tuple([emit.store(n) for n in names], ast.Store())
        out: list[ast.stmt] = [emit.assign(emit.at(stores, target), parts, target)]
        for item, name in zip(items, names, strict=True):
            inner = item.value if isinstance(item, ast.Starred) else item
            out += self.assign_to(inner, emit.at(emit.load(name), item))
        return out

    def _augmented(self, node: ast.AugAssign) -> list[ast.stmt]:
        op = emit.constant(BINARY[type(node.op)])
        target, value = node.target, node.value
        if isinstance(target, ast.Name):
            old = self.expr(emit.at(ast.Name(target.id, ast.Load()), target))
            new = self.runtime("augmented", [op, old, self.expr(value)], node)
            return self.assign_to(target, new)
        owner = self.fresh("v")
        out: list[ast.stmt] = [emit.assign(emit.store(owner), self.expr(target.value), target)]
        if isinstance(target, ast.Attribute):
            key: ast.expr = emit.constant(self.mangle(target.attr))
            get, put = "attribute", "set_attribute"
        else:
            index = self.fresh("v")
            out.append(emit.assign(emit.store(index), self.expr(target.slice), target))
            key, get, put = emit.load(index), "item", "set_item"
        old = self.runtime(get, [emit.load(owner), key], target)
        new = self.runtime("augmented", [op, old, self.expr(value)], node)
        done = self.runtime(put, [emit.load(owner), key, new], target)
        return [*out, emit.at(ast.Expr(done), node)]

    def _delete(self, node: ast.Delete) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for target in node.targets:
            out += self._delete_one(target)
        return out

    def _delete_one(self, target: ast.expr) -> list[ast.stmt]:
        match target:
            case ast.Name(name):
                place: ast.expr = emit.slot(self.env_for_store(name, target), name, ast.Del())
            case ast.Attribute(owner, name):
                args = [self.expr(owner), emit.constant(self.mangle(name))]
                return [emit.at(ast.Expr(self.runtime("delete_attribute", args, target)), target)]
            case ast.Subscript(owner, index):
                call = self.runtime("delete_item", [self.expr(owner), self.expr(index)], target)
                return [emit.at(ast.Expr(call), target)]
            case ast.Tuple(items) | ast.List(items):
                return [made for item in items for made in self._delete_one(item)]
            case _:
                raise AssertionError(f"unknown target {type(target).__name__}")
        return [emit.at(ast.Delete([emit.at(place, target)]), target)]

    def _import(self, node: ast.Import | ast.ImportFrom) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for alias in node.names:
            dotted = isinstance(node, ast.Import) and alias.asname is None and "." in alias.name
            name = alias.asname or alias.name.partition(".")[0]
            native = name if dotted else self.fresh("v")
            one = ast.alias(alias.name, None if dotted else native)
            if isinstance(node, ast.Import):
                out.append(emit.at(ast.Import([one]), node))
            else:
                out.append(emit.at(ast.ImportFrom(node.module, [one], node.level), node))
            out += self.assign_to(emit.at(emit.store(name), node), emit.at(emit.load(native), node))
        return out

    # -- control flow ---------------------------------------------------------------------------

    def _return(self, node: ast.Return) -> list[ast.stmt]:
        value = emit.constant(None) if node.value is None else self.expr(node.value)
        env = self.scope.function().env
        place = emit.slot(env, emit.RETURN_SLOT, ast.Store())
        return [emit.assign(place, value, node), emit.give(emit.constant(emit.RETURN), node)]

    def _if_statement(self, node: ast.If) -> list[ast.stmt]:
        test = self.test(node.test)
        then, then_name = self._body("then", node.body, node)
        other, other_name = self._body("elif", node.orelse, node)
        is_last = emit.constant(id(node) in self._last)
        call = self.runtime("if_", [test, then_name, other_name, is_last], node.test)
        return [then, other, *self._flow(call, node)]

    def _while(self, node: ast.While) -> list[ast.stmt]:
        test = emit.thunk(self.test(node.test))
        body, body_name = self._body("while", node.body, node)
        other, other_name = self._body("else", node.orelse, node)
        call = self.runtime("while_", [test, body_name, other_name], node.test)
        return [body, other, *self._flow(call, node)]

    def _for(self, node: ast.For) -> list[ast.stmt]:
        iterable = self.expr(node.iter)
        body, name = self._body_with_value("for", node.target, node.body, node)
        other, other_name = self._body("else", node.orelse, node)
        call = self.runtime("for_", [iterable, name, other_name], node.iter)
        return [body, other, *self._flow(call, node)]

    def _body_with_value(
        self, stem: str, target: ast.expr | None, body: list[ast.stmt], where: ast.AST
    ) -> tuple[ast.stmt, ast.expr]:
        """A body that is given a value, which it first stores in `target`."""
        name = self.fresh(stem)
        self._hoisted.append([])
        first = [] if target is None else self.assign_to(target, emit.load("$item"))
        statements = [*self._hoisted.pop(), *first, *self.block(body)]
        made = emit.function(name, emit.one_argument("$item"), statements, where)
        return made, emit.load(name)

    def _with(self, node: ast.With) -> list[ast.stmt]:
        first, *rest = node.items
        context = self.expr(first.context_expr)
        inner: list[ast.stmt] = [emit.at(ast.With(rest, node.body), node)] if rest else node.body
        body, name = self._body_with_value("with", first.optional_vars, inner, node)
        call = self.runtime("with_", [context, name], first.context_expr)
        return [body, *self._flow(call, node)]

    def _try(self, node: ast.Try) -> list[ast.stmt]:
        body, body_name = self._body("try", node.body, node)
        other, other_name = self._body("else", node.orelse, node)
        final, final_name = self._body("finally", node.finalbody, node)
        made, handlers = [body, other, final], []
        for handler in node.handlers:
            definition, record = self._handler(handler)
            made.append(definition)
            handlers.append(record)
        args = [body_name, emit.tuple_of(handlers), other_name, final_name]
        return [*made, *self._flow(self.runtime("try_", args, node), node)]

    def _handler(self, node: ast.ExceptHandler) -> tuple[ast.stmt, ast.expr]:
        kind = emit.constant(None) if node.type is None else self.thunk(node.type)
        if node.name is None:
            body, name = self._body_with_value("except", None, node.body, node)
            return body, emit.tuple_of([kind, name, emit.constant(None), emit.constant(None)])
        target = emit.at(emit.store(node.name), node)
        body, name = self._body_with_value("except", target, node.body, node)
        env = emit.load(self.env_for_store(node.name, node))
        return body, emit.tuple_of([kind, name, env, emit.constant(node.name)])

    def _match(self, node: ast.Match) -> list[ast.stmt]:
        subject = self.expr(node.subject)
        made: list[ast.stmt] = []
        cases: list[ast.expr] = []
        for case in node.cases:
            body, name = self._body("case", case.body, node)
            no_guard = emit.constant(None)
            guard = no_guard if case.guard is None else emit.thunk(self.test(case.guard))
            cases.append(emit.tuple_of([pattern(case.pattern, self.thunk), guard, name]))
            made.append(body)
        env = emit.load(self.scope.function().env)
        call = self.runtime("match_", [env, subject, emit.tuple_of(cases)], node.subject)
        return [*made, *self._flow(call, node)]

    def _raise(self, node: ast.Raise) -> list[ast.stmt]:
        error = None if node.exc is None else self.expr(node.exc)
        cause = None if node.cause is None else self.expr(node.cause)
        return [ast.Raise(error, cause)]

    def _assert(self, node: ast.Assert) -> list[ast.stmt]:
        if not __debug__:  # as Python under -O
            return []
        message = emit.constant(None) if node.msg is None else self.thunk(node.msg)
        call = self.runtime("assert_", [self.test(node.test), message], node.test)
        return self._flow(call, node)

    def _function(self, node: ast.FunctionDef) -> list[ast.stmt]:
        native = self.fresh(node.name)
        made = self.define(node, native)
        value = self.defined(node, native, node.name)
        for decorator in reversed(node.decorator_list):
            args = [self.expr(decorator), value]
            value = self.runtime("call", args, decorator)
        return [made, *self.assign_to(emit.at(emit.store(node.name), node), value)]
