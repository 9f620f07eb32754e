"""An error that a run raises, while compiling: what `except ... as e` gives the handler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sgc.trace.form import STR, UNKNOWN, Form
from sgc.trace.refusal import refuse
from sgc.trace.symbol import Symbol
from sgc_ir.errors import GenerationError
from sgc_ir.ops import Op

if TYPE_CHECKING:
    from sgc.trace.context import Trace

_FACTS = ("reason", "program", "instance", "node", "source")


class TracedError(Exception):
    """An error of the run, which the handler that takes it sees as a value.

    Attributes:
        facts: the symbol of its facts, see `sgc_ir.taken_error`.
        origin: what it may be: "call" a GenerationError, "expr" any other, "any".
        kinds: names of classes of which it is one, where that is known.
    """

    _sgc_stream = True

    def __init__(
        self, trace: Trace, facts: Symbol, origin: str, kinds: tuple[str, ...] = ()
    ) -> None:
        super().__init__("an error of the run")
        self.trace = trace
        self.facts = facts
        self.origin = origin
        self.kinds = kinds

    def may_be(self, kind: type) -> bool:
        """Whether it may be of a class."""
        from sgc.trace.attempts import may_raise

        return may_raise(self.origin, kind)

    def must_be(self, kinds: Sequence[type]) -> bool:
        """Whether it is of one of several classes for certain."""
        if self.kinds and set(self.kinds) <= {kind.__name__ for kind in kinds}:
            return True
        is_call = self.origin == "call"
        return any(
            kind in (Exception, BaseException) or (is_call and issubclass(GenerationError, kind))
            for kind in kinds
        )

    def is_one_of(self, kinds: Sequence[type]) -> Symbol:
        """Whether it is of one of several classes, as the run knows."""
        from sgc.trace.attempts import name_of

        names = [name_of(kind, self.origin) for kind in kinds]
        known = self.fact("kinds", UNKNOWN)
        tests = [self._expr("in", name, known) for name in names]
        return tests[0] if len(tests) == 1 else self._expr("or", *tests)

    def fact(self, name: str, form: Form = STR) -> Symbol:
        """One of its facts."""
        return self._expr("getitem", self.facts, name, form=form)

    def _expr(self, fn: str, *args: Any, form: Form = UNKNOWN) -> Symbol:
        trace = self.trace
        attrs = {"fn": fn, "args": tuple(trace.operand(a) for a in args)}
        return Symbol(trace.region, trace.node(Op.EXPR, attrs, may_fail=False), form)

    def text(self, how: str) -> Symbol:
        """`str(e)` or `repr(e)`."""
        if how == "ascii":
            raise refuse("ascii() of an error is not compiled; use repr")
        return self.fact("text" if how == "str" else "repr")

    def attribute(self, name: str) -> Any:
        """`e.node` and its like."""
        if name not in _FACTS:
            raise refuse(
                f"`.{name}` of an error that the run raises is not compiled; an error has "
                f"{', '.join(_FACTS)} and its text, str(e)"
            )
        if self.origin != "call":
            raise refuse(
                f"`.{name}` of an error that may be no GenerationError; take that with an "
                "`except` of its own, or use str(e)"
            )
        return self.fact(name, UNKNOWN if name in ("instance", "source") else STR)

    def is_instance(self, kinds: Any) -> Any:
        """`isinstance(e, kinds)`."""
        found = list(kinds) if isinstance(kinds, tuple) else [kinds]
        if self.must_be(found):
            return True
        possible = [kind for kind in found if self.may_be(kind)]
        return self.is_one_of(possible) if possible else False

    def raise_again(self) -> None:
        """Record that the path ends with it."""
        attrs = {"fn": "raise_again", "args": (self.trace.operand(self.facts),)}
        self.trace.node(Op.EXPR, attrs, may_fail=False)


class TracedType:
    """`type(e)` of an error that the run raises."""

    _sgc_stream = True

    def __init__(self, error: TracedError) -> None:
        self.error = error

    def attribute(self, name: str) -> Any:
        """`type(e).__name__`."""
        if name not in ("__name__", "__qualname__"):
            raise refuse(f"type(e).{name}: {QUESTION}")
        return self.error.fact("type")


QUESTION = (
    "the class of an error that the run raises is not known when compiling; ask "
    "isinstance(e, X), read type(e).__name__, or take it with an `except` of its own"
)
MIXED = (
    "this error is one of the run's on one path and one of the program's own on another; take "
    "them with handlers of their own"
)


class MixedError(Exception):
    """Several errors that have nothing in common; a handler may take, but not look at it."""

    _sgc_stream = True
