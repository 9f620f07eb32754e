"""Rewrites expressions: what operators on symbols cannot reach becomes a call of the runtime."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from sgc.lang.source import source_at
from sgc.trace import emit
from sgc.trace.refusal import refuse
from sgc.trace.scopes import Scope, comprehension_scope, function_scope, parameter_names

BINARY = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip
UNARY = {ast.UAdd: "pos", ast.USub: "neg", ast.Invert: "~", ast.Not: "not"}
COMPARE = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.In: "in", ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not",
}  # fmt: skip


class ExpressionRewriter:
    """Rewrites expressions of one function; subclassed by the rewriter of statements."""

    def __init__(self, file: str, free: frozenset[str], owner_class: str | None) -> None:
        self.file = file
        self.scope: Scope = Scope("$E", frozenset())
        self._free = free
        self._owner_class = owner_class
        self._hoisted: list[list[ast.stmt]] = []
        self._numbers = 0
        self._handlers: dict[type, Callable[[Any], ast.expr]] = {
            ast.Constant: lambda node: node,
            ast.Name: self._name,
            ast.JoinedStr: self._joined,
            ast.BinOp: self._binary,
            ast.UnaryOp: self._unary,
            ast.BoolOp: self._bool,
            ast.Compare: self._compare,
            ast.Call: self._call,
            ast.IfExp: self._if,
            ast.Lambda: self._lambda,
            ast.ListComp: self._comprehension,
            ast.SetComp: self._comprehension,
            ast.GeneratorExp: self._comprehension,
            ast.DictComp: self._comprehension,
            ast.Attribute: self._attribute,
            ast.Subscript: self._subscript,
            ast.Slice: self._slice,
            ast.Starred: self._starred,
            ast.List: self._display,
            ast.Tuple: self._display,
            ast.Set: self._display,
            ast.Dict: self._dict,
            ast.NamedExpr: self._walrus,
        }

    # -- shared ---------------------------------------------------------------------------------

    def fresh(self, stem: str) -> str:
        self._numbers += 1
        return f"${stem}{self._numbers}"

    def refuse(self, node: ast.AST, reason: str) -> BaseException:
        return refuse(reason, place=source_at(self.file, getattr(node, "lineno", 0)))

    def mangle(self, name: str) -> str:
        """Private attributes of classes, as Python changes their names."""
        owner = (self._owner_class or "").lstrip("_")
        private = name.startswith("__") and not name.endswith("__") and "." not in name
        return f"_{owner}{name}" if owner and private else name

    def hoist(self, statement: ast.stmt) -> None:
        """Put a definition in front of the statement that is being rewritten."""
        self._hoisted[-1].append(statement)

    def expr(self, node: ast.expr) -> ast.expr:
        handler = self._handlers.get(type(node))
        if handler is None:
            kind = type(node).__name__.lower()
            raise self.refuse(node, f"`{kind}` is not compiled; programs append and return")
        made = emit.at(handler(node), node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            _stand_at_name(made, node.func)
        return made

    def test(self, node: ast.expr) -> ast.expr:
        """An expression of which only the truth counts: `and` and `or` give booleans there."""
        match node:
            case ast.BoolOp(op, values):
                name = "both" if isinstance(op, ast.And) else "either"
                thunks: list[ast.expr] = [emit.thunk(self.test(value)) for value in values]
                return self.runtime(name, thunks, node)
            case ast.UnaryOp(ast.Not(), operand):
                return self.runtime("not_", [self.test(operand)], node)
            case ast.IfExp(test, body, orelse):
                arms = [emit.thunk(self.test(arm)) for arm in (body, orelse)]
                return self.runtime("if_truth", [self.test(test), *arms], node)
        return self.expr(node)

    def thunk(self, node: ast.expr) -> ast.expr:
        return emit.thunk(self.expr(node))

    def runtime(self, name: str, args: list[ast.expr], node: ast.AST) -> ast.Call:
        return emit.at(emit.runtime_call(name, args), node)

    # -- names ----------------------------------------------------------------------------------

    def _name(self, node: ast.Name) -> ast.expr:
        name = node.id
        owner = self.scope.owner(name)
        if owner is not None:
            return emit.slot(owner.env, name)
        if name in self._free and not self.scope.is_declared_global(name):
            return emit.slot(emit.CELLS, name)
        return emit.load(name)

    def env_for_store(self, name: str, node: ast.AST, scope: Scope | None = None) -> str:
        """The environment that holds local `name`; refuses names of outer functions."""
        if scope is None:
            scope = self.scope if name in self.scope.names else self.scope.function()
        if name in scope.globals or name in scope.nonlocals:
            kind = "global" if name in scope.globals else "nonlocal"
            raise self.refuse(
                node, f"`{kind} {name}` is assigned; return the value, or keep it in an object"
            )
        return scope.env

    def _walrus(self, node: ast.NamedExpr) -> ast.expr:
        name = node.target.id
        env = self.env_for_store(name, node, self.scope.function())
        put = ast.Attribute(emit.load(env), "put", ast.Load())
        return ast.Call(put, [emit.constant(name), self.expr(node.value)], [])

    # -- operators ------------------------------------------------------------------------------

    def _joined(self, node: ast.JoinedStr) -> ast.expr:
        parts = [
            self._field(part) if isinstance(part, ast.FormattedValue) else part
            for part in node.values
        ]
        return emit.runtime_call("fstring", parts)

    def _field(self, node: ast.FormattedValue) -> ast.expr:
        conversion = chr(node.conversion) if node.conversion > 0 else ""
        spec = emit.constant("") if node.format_spec is None else self.expr(node.format_spec)
        args = [self.expr(node.value), emit.constant(conversion), spec]
        return self.runtime("field", args, node.value)

    def _binary(self, node: ast.BinOp) -> ast.expr:
        op = emit.constant(BINARY[type(node.op)])
        return emit.runtime_call("binary", [op, self.expr(node.left), self.expr(node.right)])

    def _unary(self, node: ast.UnaryOp) -> ast.expr:
        op = UNARY[type(node.op)]
        if op == "not":
            return emit.runtime_call("not_", [self.test(node.operand)])
        return emit.runtime_call("unary", [emit.constant(op), self.expr(node.operand)])

    def _bool(self, node: ast.BoolOp) -> ast.expr:
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        return emit.runtime_call(name, [self.thunk(v) for v in node.values])

    def _if(self, node: ast.IfExp) -> ast.expr:
        args = [self.test(node.test), self.thunk(node.body), self.thunk(node.orelse)]
        return emit.runtime_call("if_expression", args)

    def _compare(self, node: ast.Compare) -> ast.expr:
        ops = [emit.constant(COMPARE[type(op)]) for op in node.ops]
        if len(ops) == 1:
            args = [ops[0], self.expr(node.left), self.expr(node.comparators[0])]
            return emit.runtime_call("compare", args)
        pairs = [
            emit.tuple_of([op, self.thunk(right)])
            for op, right in zip(ops, node.comparators, strict=True)
        ]
        return emit.runtime_call("compare_chain", [self.expr(node.left), *pairs])

    # -- calls, attributes, items -----------------------------------------------------------------

    def _call(self, node: ast.Call) -> ast.expr:
        args = [self.expr(a) for a in node.args]
        keywords = [emit.at(ast.keyword(k.arg, self._keyword(k)), k.value) for k in node.keywords]
        if _changes_default(node):
            return self._change_default(node)
        if isinstance(node.func, ast.Attribute):
            receiver = self.expr(node.func.value)
            name = emit.constant(self.mangle(node.func.attr))
            return emit.runtime_call("method", [receiver, name, *args], keywords)
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            raise self.refuse(node, "`super` is not compiled; call the base class by its name")
        return emit.runtime_call("call", [self.expr(node.func), *args], keywords)

    def _change_default(self, node: ast.Call) -> ast.expr:
        """`d.setdefault(k, []).append(x)`: one step, since the list is a part of the dict."""
        change = node.func
        assert isinstance(change, ast.Attribute)
        inner = change.value
        assert isinstance(inner, ast.Call)
        owner = inner.func
        assert isinstance(owner, ast.Attribute)
        args = [self.expr(e) for e in (owner.value, *inner.args)]
        more = self.thunk(node.args[0])
        return self.runtime("change_default", [*args, emit.constant(change.attr), more], node)

    def _attribute(self, node: ast.Attribute) -> ast.expr:
        name = emit.constant(self.mangle(node.attr))
        return emit.runtime_call("attribute", [self.expr(node.value), name])

    def _subscript(self, node: ast.Subscript) -> ast.expr:
        return emit.runtime_call("item", [self.expr(node.value), self.expr(node.slice)])

    def _slice(self, node: ast.Slice) -> ast.expr:
        bounds = [node.lower, node.upper, node.step]
        args = [emit.constant(None) if b is None else self.expr(b) for b in bounds]
        return ast.Call(ast.Attribute(emit.load(emit.RUNTIME), "slice", ast.Load()), args, [])

    def _starred(self, node: ast.Starred) -> ast.expr:
        inner = self.runtime("spread", [self.expr(node.value)], node.value)
        return ast.Starred(inner, ast.Load())

    def _display(self, node: ast.List | ast.Tuple | ast.Set) -> ast.expr:
        items = [self.expr(item) for item in node.elts]
        if isinstance(node, ast.Set):
            return ast.Set(items)
        return type(node)(items, ast.Load())

    def _dict(self, node: ast.Dict) -> ast.expr:
        keys = [None if k is None else self.expr(k) for k in node.keys]
        pairs = zip(keys, node.values, strict=True)
        return ast.Dict(keys, [self._mapping(v) if k is None else self.expr(v) for k, v in pairs])

    def _keyword(self, node: ast.keyword) -> ast.expr:
        return self._mapping(node.value) if node.arg is None else self.expr(node.value)

    def _mapping(self, node: ast.expr) -> ast.expr:
        """What follows `**`."""
        return self.runtime("mapping", [self.expr(node)], node)

    # -- functions inside of expressions ----------------------------------------------------------

    def _lambda(self, node: ast.Lambda) -> ast.expr:
        name = self.fresh("lambda")
        self.hoist(self.define(node, name))
        return self.defined(node, name, "<lambda>")

    def define(self, node: ast.FunctionDef | ast.Lambda, name: str) -> ast.FunctionDef:
        """The native function `name` that runs the body of `node` in an environment of its own."""
        outer, hoisted = self.scope, self._hoisted
        self.scope = function_scope(node, self.fresh("E"), outer if hoisted else None)
        self._hoisted = [[]]
        env, body = self.scope.env, self.fresh("body")
        names = parameter_names(node.args)
        slots = ast.Dict([emit.constant(n) for n in names], [emit.load(n) for n in names])
        statements: list[ast.stmt] = [
            emit.assign(emit.store(env), emit.runtime_call("env", [slots]), node),
            emit.function(body, emit.no_arguments(), self.function_body(node), node),
            emit.give(emit.runtime_call("run", [emit.load(env), emit.load(body)]), node),
        ]
        self.scope, self._hoisted = outer, hoisted
        return emit.function(name, emit.bare_arguments(node.args), statements, node)

    def defined(self, node: ast.FunctionDef | ast.Lambda, native: str, name: str) -> ast.expr:
        """The function object, with its defaults evaluated here."""
        kw_defaults = [
            (a.arg, d)
            for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            if d is not None
        ]
        keywords = ast.Dict(
            [emit.constant(n) for n, _ in kw_defaults], [self.expr(d) for _, d in kw_defaults]
        )
        defaults = emit.tuple_of([self.expr(d) for d in node.args.defaults])
        doc = ast.get_docstring(node, clean=False) if isinstance(node, ast.FunctionDef) else None
        args = [emit.load(native), emit.constant(name), defaults, keywords, emit.constant(doc)]
        return self.runtime("define", args, node)

    def function_body(self, node: ast.FunctionDef | ast.Lambda) -> list[ast.stmt]:
        """Statements of the body, ending in a flow code."""
        raise NotImplementedError

    def assign_to(self, target: ast.expr, value: ast.expr) -> list[ast.stmt]:
        """Statements that store `value`, which is evaluated once and first."""
        raise NotImplementedError

    # -- comprehensions ---------------------------------------------------------------------------

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
    ) -> ast.expr:
        first = self.expr(node.generators[0].iter)
        name = self.fresh("each")
        self.hoist(self._stages(node, name))
        kind = {
            ast.ListComp: "list", ast.SetComp: "set", ast.DictComp: "dict",
            ast.GeneratorExp: "generator",
        }[type(node)]  # fmt: skip
        stages = ast.Call(emit.load(name), [], [])
        return emit.runtime_call("comprehension", [emit.constant(kind), stages, first])

    def _stages(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, name: str
    ) -> ast.FunctionDef:
        """A function that gives (stages, element): targets in slots of their own."""
        outer = self.scope
        self.scope = comprehension_scope(node.generators, self.fresh("E"), outer)
        self._hoisted.append([])
        empty = emit.runtime_call("env", [ast.Dict([], [])])
        start = emit.assign(emit.store(self.scope.env), empty, node)
        stages = [self._stage(g, i == 0) for i, g in enumerate(node.generators)]
        if isinstance(node, ast.DictComp):
            element: ast.expr = emit.tuple_of([self.expr(node.key), self.expr(node.value)])
        else:
            element = self.expr(node.elt)
        result = emit.tuple_of([emit.tuple_of(stages), emit.thunk(emit.at(element, node))])
        body = [start, *self._hoisted.pop(), emit.give(result, node)]
        self.scope = outer
        return emit.function(name, emit.no_arguments(), body, node)

    def _stage(self, generator: ast.comprehension, is_first: bool) -> ast.expr:
        if generator.is_async:
            raise self.refuse(generator.target, "`async for` is not compiled; write `for`")
        put = self.fresh("put")
        item = emit.load("$item")
        statements = self.assign_to(generator.target, item)
        self.hoist(emit.function(put, emit.one_argument("$item"), statements, generator.target))
        source = emit.constant(None) if is_first else self.thunk(generator.iter)
        conditions = emit.tuple_of([emit.thunk(self.test(c)) for c in generator.ifs])
        return emit.tuple_of([source, emit.load(put), conditions])


def _stand_at_name(call: ast.expr, attribute: ast.Attribute) -> None:
    """Python puts a method call over several lines on the line where the method's name stands."""
    if attribute.end_lineno is not None and attribute.lineno != attribute.end_lineno:
        call.lineno = attribute.end_lineno
        call.col_offset = (attribute.end_col_offset or 0) - len(attribute.attr)


def _changes_default(node: ast.Call) -> bool:
    """Whether it is `....setdefault(k, default).append(x)`, or extend."""
    change = node.func
    if not isinstance(change, ast.Attribute) or change.attr not in ("append", "extend"):
        return False
    inner = change.value
    return (
        isinstance(inner, ast.Call)
        and isinstance(inner.func, ast.Attribute)
        and inner.func.attr == "setdefault"
        and (len(node.args), len(inner.args)) == (1, 2)
        and not node.keywords
        and not inner.keywords
        and not any(isinstance(arg, ast.Starred) for arg in (*node.args, *inner.args))
    )
