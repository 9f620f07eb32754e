"""Operators of rewritten code: with run-time operands recorded, with others what Python does."""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any

from sgc.lang.primitives import Primitive
from sgc.trace.containers import is_container
from sgc.trace.control import DeadPath
from sgc.trace.identity import is_same
from sgc.trace.log import changed, undo
from sgc.trace.operand import form_of, holds_symbol, is_data
from sgc.trace.refusal import Refusal, refuse
from sgc.trace.snapshot import chain
from sgc.trace.source import is_user_file
from sgc.trace.symbol import KEY, Maybe, Poison, Symbol, check_sure, is_mark, is_stream, whole
from sgc.trace.taken import QUESTION, TracedType

if TYPE_CHECKING:
    from sgc.trace.context import Trace

_BINARY: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any], str]] = {
    "+": (operator.add, operator.iadd, "add"),
    "-": (operator.sub, operator.isub, "sub"),
    "*": (operator.mul, operator.imul, "mul"),
    "/": (operator.truediv, operator.itruediv, "truediv"),
    "//": (operator.floordiv, operator.ifloordiv, "floordiv"),
    "%": (operator.mod, operator.imod, "mod"),
    "**": (operator.pow, operator.ipow, "pow"),
    "@": (operator.matmul, operator.imatmul, "matmul"),
    "&": (operator.and_, operator.iand, "and"),
    "|": (operator.or_, operator.ior, "or"),
    "^": (operator.xor, operator.ixor, "xor"),
    "<<": (operator.lshift, operator.ilshift, "lshift"),
    ">>": (operator.rshift, operator.irshift, "rshift"),
}
_UNARY: dict[str, tuple[Callable[[Any], Any], str]] = {
    "neg": (operator.neg, "__neg__"),
    "pos": (operator.pos, "__pos__"),
    "~": (operator.invert, "__invert__"),
}
_COMPARE: dict[str, tuple[Callable[[Any, Any], Any], str, str]] = {
    "==": (operator.eq, "__eq__", "__eq__"),
    "!=": (operator.ne, "__ne__", "__ne__"),
    "<": (operator.lt, "__lt__", "__gt__"),
    "<=": (operator.le, "__le__", "__ge__"),
    ">": (operator.gt, "__gt__", "__lt__"),
    ">=": (operator.ge, "__ge__", "__le__"),
}
_DATA = (list, tuple, dict)


_FAILED: Any = object()  # an operand cannot be recorded without a branch


class Operators:
    """The part of the runtime that rewritten operators call."""

    trace: Trace

    # -- what user classes define ---------------------------------------------------

    def dunder(self, value: Any, name: str) -> Callable[..., Any] | None:
        """The special method that a user's class defines, to be run rewritten."""
        cls = type(value)
        if cls.__module__ == "builtins":
            return None
        method = getattr(cls, name, None)
        if type(method) is not FunctionType or not is_user_file(method.__code__.co_filename):
            return None
        return lambda *args: self.trace.runtime.call(method, value, *args)

    # -- arithmetic ---------------------------------------------------

    def binary(self, op: str, a: Any, b: Any) -> Any:
        native, _, stem = _BINARY[op]
        if op == "%" and isinstance(a, str | bytes) and holds_symbol(b):
            return self.trace.expr("%", a, b)
        found = self._special(a, b, f"__{stem}__", f"__r{stem}__")
        return native(a, b) if found is NotImplemented else found

    def augmented(self, op: str, a: Any, b: Any) -> Any:
        _, native, stem = _BINARY[op]
        if op == "%" and isinstance(a, str | bytes) and holds_symbol(b):
            return self.trace.expr("%", a, b)
        if type(a) is list and op == "+":
            self.trace.runtime.method(a, "extend", b)
            return a
        if type(a) is Symbol and op in ("+", "*"):
            _check_new(op, form_of(a).kind, form_of(b).kind)
        in_place = self.dunder(a, f"__i{stem}__")
        if isinstance(a, dict):
            check_sure(b)
        if in_place is not None and (done := in_place(b)) is not NotImplemented:
            return done
        found = self._special(a, b, f"__{stem}__", f"__r{stem}__")
        if found is NotImplemented and hasattr(type(a), f"__i{stem}__"):
            self.trace.check_followed(a, f"`{op}=`")
            if is_container(a):
                self.trace.log.touch(a)
        return native(a, b) if found is NotImplemented else found

    def _special(self, a: Any, b: Any, name: str, reflected: str) -> Any:
        """What methods of user classes give, or NotImplemented where they have no say."""
        tries = [(a, name, b), (b, reflected, a)]
        if type(b) is not type(a) and issubclass(type(b), type(a)):
            tries.reverse()
        for owner, method, other in tries:
            if isinstance(owner, Primitive) or is_mark(owner):
                continue
            found = self.dunder(owner, method)
            if found is not None and (result := found(other)) is not NotImplemented:
                return result
        return NotImplemented

    def unary(self, op: str, a: Any) -> Any:
        native, name = _UNARY[op]
        found = self.dunder(a, name)
        return native(a) if found is None else found()

    # -- comparisons ---------------------------------------------------

    def compare(self, op: str, a: Any, b: Any) -> Any:
        if TracedType in (type(a), type(b)):
            raise refuse(QUESTION)
        if is_stream(a) and is_stream(b) and op in ("is", "is not", "==", "!="):
            return is_same(a, b) == (op in ("is", "=="))
        if op in ("is", "is not"):
            return self._identity(op, a, b)
        if op in ("in", "not in"):
            return self._membership(op, a, b)
        if self._is_recorded(a) or self._is_recorded(b):
            return self.trace.expr(op, a, b)
        native, name, reflected = _COMPARE[op]
        found = self._special(a, b, name, reflected)
        return native(a, b) if found is NotImplemented else found

    def _is_recorded(self, value: Any) -> bool:
        return is_mark(value) or (type(value) in _DATA and holds_symbol(value))

    def _identity(self, op: str, a: Any, b: Any) -> Any:
        if is_mark(a) or is_mark(b):
            other = b if is_mark(a) else a
            if not (other is None or other is True or other is False):
                raise refuse("`is` of a run-time value cannot be answered when compiling; use ==")
            mark = a if is_mark(a) else b
            if other is None and type(mark) is Symbol and mark.form.kind not in ("", "none"):
                return op == "is not"  # a value of this type is never None
            return self.trace.expr(op, a, b)
        return (a is b) if op == "is" else (a is not b)

    def _membership(self, op: str, a: Any, b: Any) -> Any:
        has = getattr(b, "has_", None) if is_stream(b) else None
        if has is not None:
            found = has(a)
            return found if op == "in" else self.not_(found)
        if is_stream(a) and isinstance(b, list | tuple):
            return any(is_same(a, item) for item in b if is_stream(item)) == (op == "in")
        if type(b) is Symbol or (self._is_recorded(a) and isinstance(b, str | bytes)):
            return self.trace.expr(op, a, b)
        if whole(b) is not None:
            return self.trace.expr(op, a, b)
        if isinstance(b, set | frozenset | dict) and self._is_recorded(a):
            check_sure(b)
            if holds_symbol(list(b)):
                raise refuse(KEY)
            return self.trace.expr(op, a, sorted_keys(b))
        if isinstance(b, range) and is_mark(a):
            return self.trace.expr(op, a, list(b))
        if isinstance(b, list | tuple | dict) and (
            self._is_recorded(a) or self._is_recorded(list(b))
        ):
            return self.trace.expr(op, a, b if type(b) is not dict else list(b))
        if type(b) is Poison:
            raise refuse(b.why)
        found = self.dunder(b, "__contains__")
        if found is not None:
            inside = self.trace.runtime.decide(found(a))
            return inside if op == "in" else self.not_(inside)
        if type(b) is dict and not self._is_recorded(a) and type(b.get(a)) is Maybe:
            inside = self.trace.runtime.decide(self.trace.expr("is_set", b[a].value))
            return inside if op == "in" else self.not_(inside)
        return (a in b) if op == "in" else (a not in b)

    def compare_chain(self, first: Any, *pairs: tuple[str, Callable[[], Any]]) -> Any:
        """`a < b <= c`: each operand once; those behind a false comparison not at all."""
        left = [first]

        def step(op: str, right: Callable[[], Any]) -> Callable[[], Any]:
            def compared() -> Any:
                before, left[0] = left[0], right()
                return self.compare(op, before, left[0])

            return compared

        return self.and_(*(step(op, right) for op, right in pairs))

    # -- logic ---------------------------------------------------

    def not_(self, value: Any) -> Any:
        known = self.trace.runtime.decide(value)
        return self.trace.expr("not", known) if type(known) is Symbol else not known

    def and_(self, *operands: Callable[[], Any]) -> Any:
        """`and` where the operand is the value."""
        return self._logic("and", operands, 0)

    def or_(self, *operands: Callable[[], Any]) -> Any:
        """`or` where the operand is the value."""
        return self._logic("or", operands, 0)

    def _logic(self, fn: str, operands: tuple[Callable[[], Any], ...], at: int) -> Any:
        """Operands until the outcome is known; one behind a run-time one only where it counts."""
        value = operands[at]()
        if at + 1 == len(operands):
            return value
        known = self.trace.runtime.decide(value)
        if type(known) is not Symbol:
            return self._logic(fn, operands, at + 1) if known == (fn == "and") else value

        def others() -> Any:
            return self._logic(fn, operands, at + 1)

        if known is value:
            found = self._on_trial(others, known, fn == "and")
            if found is not _FAILED:
                return self.trace.expr(fn, value, found)
        arms = (others, lambda: value) if fn == "and" else (lambda: value, others)
        return self.trace.control.choose(known, *arms)

    def both(self, *operands: Callable[[], Any]) -> Any:
        """`and` where only the truth counts."""
        return self._truths("and", operands, 0)

    def either(self, *operands: Callable[[], Any]) -> Any:
        """`or` where only the truth counts."""
        return self._truths("or", operands, 0)

    def _truths(self, fn: str, operands: tuple[Callable[[], Any], ...], at: int) -> Any:
        decides = fn == "or"
        known = self.trace.runtime.decide(operands[at]())
        if at + 1 == len(operands) or known is decides:
            return known
        if type(known) is not Symbol:
            return self._truths(fn, operands, at + 1)

        def others() -> Any:
            return self._truths(fn, operands, at + 1)

        found = self._on_trial(others, known, not decides)
        if found is not _FAILED:
            if type(found) is bool:
                return found if found is decides else known
            return self.trace.expr(fn, known, found)
        arms = (lambda: True, others) if decides else (others, lambda: False)
        return self.trace.control.choose(known, *arms)

    def if_expression(self, test: Any, a: Callable[[], Any], b: Callable[[], Any]) -> Any:
        """`a if test else b`."""
        known = self.trace.runtime.decide(test)
        if type(known) is not Symbol:
            return a() if known else b()
        left = self._on_trial(a, known, True)
        right = self._on_trial(b, known, False) if left is not _FAILED else _FAILED
        if right is not _FAILED:
            return self.trace.expr("if", known, left, right)
        return self.trace.control.choose(known, a, b)

    def if_truth(self, test: Any, a: Callable[[], Any], b: Callable[[], Any]) -> Any:
        """`a if test else b` where only the truth counts."""
        truth = self.trace.runtime.decide
        return self.if_expression(test, lambda: truth(a()), lambda: truth(b()))

    def tried(self, operand: Callable[[], Any]) -> tuple[Any, bool]:
        """The value of something that cannot fail and does nothing, and True; else all is as
        before, and False."""
        value = self._on_trial(operand, None, True)
        return value, value is not _FAILED

    def _on_trial(self, operand: Callable[[], Any], test: Symbol | None, outcome: bool) -> Any:
        """Evaluate an operand that Python might skip; its value where it is plain data that cannot
        fail and does nothing, else _FAILED, and all is as before."""
        trace = self.trace
        marks = [(region, region.mark()) for region in chain(trace)]
        before = trace.effects, trace.partials, trace.size, trace.facts.known
        lengths = len(trace.streams), len(trace.families)
        with trace.log.frame() as frame:
            outside = trace.facts.outside
            trace.facts.outside = before[3] if outside is None else outside
            if test is not None:
                trace.facts.assume(test, outcome)
            trace.trials += 1
            try:
                value = operand()
            except (Refusal, DeadPath, Exception):  # whatever it is, the branch will meet it again
                value = _FAILED
            finally:
                trace.trials -= 1
                trace.facts.outside = outside
            if (trace.effects, trace.partials) != before[:2] or not is_data(value):
                value = _FAILED
            if value is _FAILED or changed(frame):
                undo(frame)
                value = _FAILED
        trace.facts.known = before[3]
        if value is _FAILED:
            for region, mark in marks:
                region.undo(mark)
            trace.effects, trace.partials, trace.size = before[:3]
            del trace.streams[lengths[0] :], trace.families[lengths[1] :]
        return value


def sorted_keys(values: Any) -> list[Any]:
    """The members of a set or dict as a list in a fixed order."""
    if isinstance(values, dict):
        return list(values)
    return sorted(values, key=lambda v: (type(v).__name__, repr(v)))


def _check_new(op: str, left: str, right: str) -> None:
    """Refuse `a += b` where `a` may be a list, which Python would change in place."""
    is_list = left == "list"
    if is_list or (left == "" and (op == "*" or right not in ("str", "int", "num", "bool"))):
        kind = "run-time list" if is_list else "run-time value that may be a list"
        advice = "" if is_list else ", or annotate the argument's type"
        raise refuse(
            f"`{op}=` changes a {kind} in place, also under its other names; write x = x {op} y"
            + advice
        )
