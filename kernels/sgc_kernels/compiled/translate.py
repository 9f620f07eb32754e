"""From kernels written in a small part of Python to LLVM IR.

A kernel is a function of 64-bit integers and float32 numbers: assignments, arithmetic,
comparisons, `if`, `while`, `for ... in range`, calls of other kernels and of emitters, and
`return`. Whatever it takes from outside (sizes, other kernels) is a constant. Integers that are
divided are not negative. Nothing is inferred: a variable has the type of its first value.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import operator
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar, cast

from llvmlite import ir

from sgc_kernels.compiled.lanes import F32, I1, I64, Emitter
from sgc_kernels.compiled.target import Target

P = ParamSpec("P")
R = TypeVar("R")
Value = Any  # ir.Value, or an int or float of Python that is known while translating

_TYPES = {"bool": I1, "int": I64, "float": F32, "None": ir.VoidType()}
_ORDER = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
_INT = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.FloorDiv: "udiv",
    ast.Mod: "urem",
    ast.BitAnd: "and_",
}
_KNOWN: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.LShift: operator.lshift,
}
_FLOAT = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"}


@dataclass(frozen=True)
class Emitted:
    """What a kernel may call: emits its code in place; takes and gives IR values."""

    emit: Callable[..., ir.Value | None]

    def __call__(self, *args: Any) -> Any:
        raise TypeError("an emitter has no meaning outside a kernel")


@dataclass(frozen=True)
class Kernel:
    """A function that another kernel may call; compiled once a module."""

    source: Callable[..., Any]

    def __call__(self, *args: Any) -> Any:
        raise TypeError("a kernel has no meaning before it is compiled")


def emitted(emit: Callable[..., ir.Value | None]) -> Callable[..., Any]:
    """Make `emit(emitter, *values)` callable in kernels; constants arrive as IR constants."""
    return Emitted(emit)


def emitted_int(emit: Callable[..., ir.Value]) -> Callable[..., int]:
    """As `emitted`, for a result that is a 64-bit integer."""
    return Emitted(emit)


def kernel(source: Callable[P, R]) -> Callable[P, R]:
    """Make a function callable in other kernels."""
    return cast(Callable[P, R], Kernel(source))


def module_text(name: str, source: Callable[..., Any], target: Target) -> str:
    """IR of a module whose one visible function, `name`, is the kernel `source`."""
    module = ir.Module(name)
    functions: dict[Callable[..., Any], ir.Function] = {}
    _declare(module, functions, source, target, name).linkage = "external"
    return str(module)


def _declare(
    module: ir.Module,
    functions: dict[Callable[..., Any], ir.Function],
    source: Callable[..., Any],
    target: Target,
    name: str | None = None,
) -> ir.Function:
    if source in functions:
        return functions[source]
    tree = _tree(source)
    arguments = [_type(argument.annotation) for argument in tree.args.args]
    kind = ir.FunctionType(_type(tree.returns), arguments)
    function = ir.Function(module, kind, name or f"{tree.name}.{len(functions)}")
    function.linkage = "internal"
    functions[source] = function
    _Body(function, functions, source, tree, target).translate()
    return function


def _tree(source: Callable[..., Any]) -> ast.FunctionDef:
    node = ast.parse(textwrap.dedent(inspect.getsource(source))).body[0]
    assert isinstance(node, ast.FunctionDef)
    return node


def _type(annotation: ast.expr | None) -> ir.Type:
    if isinstance(annotation, ast.Subscript):  # tuple[...]
        assert isinstance(annotation.slice, ast.Tuple)
        return ir.LiteralStructType([_type(part) for part in annotation.slice.elts])
    return _TYPES["None" if annotation is None else ast.unparse(annotation)]


def _known_compare(ops: Sequence[ast.cmpop], values: Sequence[Any]) -> bool:
    known = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
    known |= {"==": operator.eq, "!=": operator.ne}
    pairs = zip(ops, itertools.pairwise(values), strict=True)
    return all(known[_ORDER[type(op)]](a, b) for op, (a, b) in pairs)


class _Body:
    """Translates one function's statements, in order."""

    def __init__(
        self,
        function: ir.Function,
        functions: dict[Callable[..., Any], ir.Function],
        source: Callable[..., Any],
        tree: ast.FunctionDef,
        target: Target,
    ) -> None:
        self._function, self._functions, self._tree = function, functions, tree
        self._target = target
        self._b = ir.IRBuilder(function.append_basic_block())
        self._emitter = Emitter(self._b, target)
        self._places: dict[str, ir.Value] = {}
        self._loops: list[ir.Block] = []  # where `continue` goes
        outside = inspect.getclosurevars(source)
        self._outside = {**outside.builtins, **outside.globals, **outside.nonlocals}

    def translate(self) -> None:
        for argument, value in zip(self._tree.args.args, self._function.args, strict=True):
            self._assign(argument.arg, value)
        self._statements(self._tree.body)
        if not self._b.block.is_terminated:
            self._b.ret_void()

    # -- statements ---------------------------------------------------------------------------

    def _statements(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            getattr(self, f"_{type(statement).__name__}")(statement)

    def _Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self._value(node.value)

    def _Assign(self, node: ast.Assign) -> None:
        (target,) = node.targets
        if not isinstance(target, ast.Tuple):
            self._assign(ast.unparse(target), self._value(node.value))
            return
        if isinstance(node.value, ast.Tuple):
            values = [self._value(part) for part in node.value.elts]
        else:
            joined = self._value(node.value)
            values = [self._b.extract_value(joined, i) for i in range(len(target.elts))]
        for part, value in zip(target.elts, values, strict=True):
            self._assign(ast.unparse(part), value)

    def _AugAssign(self, node: ast.AugAssign) -> None:
        assert isinstance(node.target, ast.Name)
        before = self._b.load(self._places[node.target.id])
        self._assign(node.target.id, self._binary(node.op, before, self._value(node.value)))

    def _assign(self, name: str, value: Value) -> None:
        if name not in self._places:
            kind = self._ir(value).type
            self._places[name] = self._emitter.alloca(kind)
        place = self._places[name]
        self._b.store(self._ir(value, place.type.pointee), place)

    def _If(self, node: ast.If) -> None:
        test = self._value(node.test)
        if not isinstance(test, ir.Value):  # decided already
            self._statements(node.body if test else node.orelse)
            return
        yes, no, behind = (self._function.append_basic_block() for _ in range(3))
        self._b.cbranch(test, yes, no)
        for block, body in ((yes, node.body), (no, node.orelse)):
            self._b.position_at_end(block)
            self._statements(body)
            if not self._b.block.is_terminated:
                self._b.branch(behind)
        self._b.position_at_end(behind)

    def _While(self, node: ast.While) -> None:
        head = self._function.append_basic_block()
        self._loop(head, head, lambda: self._value(node.test), node.body, lambda: None)

    def _For(self, node: ast.For) -> None:
        assert isinstance(node.iter, ast.Call)
        ends = [self._ir(self._value(argument)) for argument in node.iter.args]
        first, end = (I64(0), ends[0]) if len(ends) == 1 else ends[:2]
        step = ends[2] if len(ends) == 3 else I64(1)
        index = self._emitter.alloca(I64)
        self._b.store(first, index)
        head, tail = self._function.append_basic_block(), self._function.append_basic_block()

        def inside() -> ir.Value:
            self._assign(ast.unparse(node.target), self._b.load(index))
            return self._b.icmp_signed("<", self._b.load(index), end)

        def further() -> None:
            self._b.store(self._b.add(self._b.load(index), step), index)

        self._loop(head, tail, inside, node.body, further)

    def _loop(
        self,
        head: ir.Block,
        tail: ir.Block,
        inside: Callable[[], Any],
        statements: Sequence[ast.stmt],
        further: Callable[[], None],
    ) -> None:
        body, behind = self._function.append_basic_block(), self._function.append_basic_block()
        self._b.branch(head)
        self._b.position_at_end(head)
        self._b.cbranch(inside(), body, behind)
        self._b.position_at_end(body)
        self._loops.append(tail)
        self._statements(statements)
        self._loops.pop()
        if not self._b.block.is_terminated:
            self._b.branch(tail)
        if tail is not head:
            self._b.position_at_end(tail)
            further()
            self._b.branch(head)
        self._b.position_at_end(behind)

    def _Continue(self, node: ast.Continue) -> None:
        self._b.branch(self._loops[-1])

    def _Return(self, node: ast.Return) -> None:
        kind = self._function.return_value.type
        if node.value is None:
            self._b.ret_void()
            return
        if not isinstance(node.value, ast.Tuple):
            self._b.ret(self._ir(self._value(node.value), kind))
            return
        joined = ir.Constant(kind, ir.Undefined)
        for i, part in enumerate(node.value.elts):
            joined = self._b.insert_value(joined, self._ir(self._value(part)), i)
        self._b.ret(joined)

    # -- values -------------------------------------------------------------------------------

    def _ir(self, value: Value, kind: ir.Type | None = None) -> ir.Value:
        if isinstance(value, ir.Value):
            assert kind is None or value.type == kind, f"{value.type} is not {kind}"
            return value
        if isinstance(value, bool):
            return I1(int(value))
        kind = kind or (F32 if isinstance(value, float) else I64)
        return kind(float(value) if kind is F32 else int(value))

    def _value(self, node: ast.expr) -> Any:
        """A constant of Python where the value is known, else an IR value."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            place = self._places.get(node.id)
            return self._outside[node.id] if place is None else self._b.load(place)
        if isinstance(node, ast.BinOp):
            return self._binary(node.op, self._value(node.left), self._value(node.right))
        if isinstance(node, ast.UnaryOp):
            return self._unary(node)
        if isinstance(node, ast.Compare):
            return self._compare(node)
        if isinstance(node, ast.BoolOp):
            return self._both(node)
        if isinstance(node, ast.IfExp):
            test, yes, no = (self._value(n) for n in (node.test, node.body, node.orelse))
            return self._choose(test, yes, no)
        assert isinstance(node, ast.Call), f"kernels have no {type(node).__name__}"
        return self._call(node)

    def _alike(self, a: Value, b: Value) -> tuple[ir.Value, ir.Value]:
        """Both as IR values of one type: constants take the type of the other."""
        if isinstance(a, ir.Value):
            return a, self._ir(b, a.type)
        return (self._ir(a, b.type), b) if isinstance(b, ir.Value) else (self._ir(a), self._ir(b))

    def _binary(self, op: ast.operator, a: Value, b: Value) -> Value:
        if not isinstance(a, ir.Value) and not isinstance(b, ir.Value):
            return _KNOWN[type(op)](a, b)
        left, right = self._alike(a, b)
        names = _INT if left.type == I64 else _FLOAT
        return getattr(self._b, names[type(op)])(left, right)

    def _unary(self, node: ast.UnaryOp) -> Value:
        value = self._value(node.operand)
        if isinstance(node.op, ast.Not):
            return self._b.not_(value) if isinstance(value, ir.Value) else not value
        assert isinstance(node.op, ast.USub)
        return self._binary(ast.Sub(), 0, value)

    def _compare(self, node: ast.Compare) -> Value:
        values = [self._value(part) for part in (node.left, *node.comparators)]
        if not any(isinstance(value, ir.Value) for value in values):
            return _known_compare(node.ops, values)
        tests = []
        for op, (a, b) in zip(node.ops, itertools.pairwise(values), strict=True):
            left, right = self._alike(a, b)
            compare = self._b.icmp_signed if left.type == I64 else self._b.fcmp_ordered
            tests.append(compare(_ORDER[type(op)], left, right))
        return functools.reduce(self._b.and_, tests)

    def _both(self, node: ast.BoolOp) -> ir.Value:
        """`and` and `or`, evaluated as Python does: the second part only where it decides."""
        out = self._emitter.alloca(I1)
        behind = self._function.append_basic_block()
        for part in node.values:
            test = self._value(part)
            self._b.store(test, out)
            following = self._function.append_basic_block()
            ways = (following, behind) if isinstance(node.op, ast.And) else (behind, following)
            self._b.cbranch(test, *ways)
            self._b.position_at_end(following)
        self._b.branch(behind)
        self._b.position_at_end(behind)
        return self._b.load(out)

    def _choose(self, test: Any, yes: Value, no: Value) -> Value:
        if not isinstance(test, ir.Value):
            return yes if test else no
        return self._b.select(test, *self._alike(yes, no))

    def _call(self, node: ast.Call) -> Any:
        assert isinstance(node.func, ast.Name)
        called = self._outside[node.func.id]
        values = [self._value(argument) for argument in node.args]
        if called is min or called is max:
            return functools.reduce(lambda a, b: self._extreme(called is max, a, b), values)
        if isinstance(called, Emitted):
            return called.emit(self._emitter, *(self._ir(value) for value in values))
        assert isinstance(called, Kernel), f"{node.func.id} is not a kernel"
        function = _declare(self._b.module, self._functions, called.source, self._target)
        kinds = function.ftype.args
        arguments = [self._ir(v, k) for v, k in zip(values, kinds, strict=True)]
        return self._b.call(function, arguments)

    def _extreme(self, largest: bool, a: Value, b: Value) -> ir.Value:
        left, right = self._alike(a, b)
        compare = self._b.icmp_signed if left.type == I64 else self._b.fcmp_ordered
        return self._b.select(compare(">" if largest else "<", left, right), left, right)
