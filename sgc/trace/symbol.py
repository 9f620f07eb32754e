"""Values that are known only at run time, and the markers that stand for parts of containers.

A `Symbol` is the value of one node. Operators on it record expressions; whatever would need its
value now refuses. `Spread(v)` in a list stands for the items of list symbol `v`, `Poison(why)` for
a value that could not be followed: any use refuses. `Maybe(v)` in a dict is one that may be unset.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sgc.lang.primitives import Primitive
from sgc.trace.form import UNKNOWN, Form
from sgc.trace.refusal import refuse
from sgc_ir.expr_methods import METHODS

if TYPE_CHECKING:
    from sgc.trace.region import Region

BIND_ADVICE = "use sgc.call with a tool, or bind the argument"
TRUTH = (
    "its truth is decided at run time, and code that is not compiled asks for it; ask in an `if`, "
    'a loop or an expression of the program, bind the argument, or run it with mode="interpreted"'
)
KEY = f"a run-time value as key or set member; use a list, sgc.vote, or {BIND_ADVICE}"
_CHANGING = frozenset(
    "append extend insert pop remove clear sort reverse update setdefault popitem add".split()
)
NATIVE = "a run-time value was given to code that is not compiled"


def _operator(fn: str, reflected: bool = False) -> Callable[[Symbol, Any], Any]:
    def record(self: Symbol, other: Any) -> Any:
        if isinstance(other, Primitive):
            return NotImplemented
        args = (other, self) if reflected else (self, other)
        return self.region.trace.expr(fn, *args)

    return record


def _unary(fn: str) -> Callable[[Symbol], Any]:
    return lambda self: self.region.trace.expr(fn, self)


def _refusing(reason: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise refuse(reason)

    return method


class Symbol:
    """The value of node `node` of `region`.

    Attributes:
        form: what is known of the value's type and parts.
    """

    __slots__ = ("form", "node", "region")
    _sgc_symbol = True

    region: Region
    node: int
    form: Form

    def __init__(self, region: Region, node: int, form: Form = UNKNOWN) -> None:
        object.__setattr__(self, "region", region)
        object.__setattr__(self, "node", node)
        object.__setattr__(self, "form", form)

    @property
    def key(self) -> tuple[int, int]:
        """What tells symbols apart: number of the region, and node."""
        return self.region.number, self.node

    def __repr__(self) -> str:
        return f"<symbol {self.region.number}.{self.node}>"

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        # `isinstance` of foreign code asks here after the real type did not fit
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if self.region.trace.is_active and not caller.startswith("sgc"):
            raise refuse(f"{NATIVE}, which asks for its type; {BIND_ADVICE}")
        return Symbol

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        if name in _CHANGING:
            raise refuse(
                f"`.{name}` changes a run-time value in place; make a list of it first "
                "(list(x)), or make a new value"
            )
        if f".{name}" not in METHODS:
            raise refuse(f"`.{name}` of a run-time value is not compiled; {BIND_ADVICE}")
        return SymbolMethod(self, name)

    def __getitem__(self, index: Any) -> Any:
        from sgc.trace.items import symbol_item

        return symbol_item(self.region.trace, self, index)

    __add__, __radd__ = _operator("+"), _operator("+", True)
    __sub__, __rsub__ = _operator("-"), _operator("-", True)
    __mul__, __rmul__ = _operator("*"), _operator("*", True)
    __truediv__, __rtruediv__ = _operator("/"), _operator("/", True)
    __floordiv__, __rfloordiv__ = _operator("//"), _operator("//", True)
    __mod__, __rmod__ = _operator("%"), _operator("%", True)
    __pow__, __rpow__ = _operator("**"), _operator("**", True)
    __lt__, __le__ = _operator("<"), _operator("<=")
    __gt__, __ge__ = _operator(">"), _operator(">=")
    __eq__, __ne__ = _operator("=="), _operator("!=")
    __neg__, __pos__ = _unary("neg"), _unary("pos")

    _BITS = f"bit operators on run-time values are not compiled; {BIND_ADVICE}"
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _refusing(_BITS)
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __invert__ = _refusing(_BITS)
    __matmul__ = __rmatmul__ = __divmod__ = __rdivmod__ = _refusing(_BITS)

    __bool__ = _refusing(TRUTH)
    __hash__ = _refusing(KEY)
    __iter__ = _refusing(f"{NATIVE}, which iterates it; iterate it in a `for` of the program")
    __len__ = _refusing(f"{NATIVE}, which asks for its length; {BIND_ADVICE}")
    __contains__ = _refusing(f"{NATIVE}, which searches it; {BIND_ADVICE}")
    __index__ = __int__ = __float__ = _refusing(f"{NATIVE}, which needs a number; {BIND_ADVICE}")
    __str__ = __format__ = _refusing(f"{NATIVE}, which needs its text; {BIND_ADVICE}")
    __round__ = __abs__ = __reversed__ = __bytes__ = _refusing(f"{NATIVE}; {BIND_ADVICE}")

    _STORE = "a run-time value is changed in place; make a new value instead"
    __setitem__ = __delitem__ = __setattr__ = __delattr__ = _refusing(_STORE)


class SymbolMethod:
    """`symbol.name`, before it is called."""

    __slots__ = ("name", "symbol")
    _sgc_symbol = True

    def __init__(self, symbol: Symbol, name: str) -> None:
        self.symbol = symbol
        self.name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.symbol.region.trace.expr(f".{self.name}", self.symbol, *args, **kwargs)


class Spread:
    """In a list: the items of list symbol `value`."""

    __slots__ = ("value",)
    _sgc_symbol = True

    def __init__(self, value: Symbol) -> None:
        self.value = value

    __bool__ = __iter__ = __len__ = __str__ = __hash__ = _refusing(f"{NATIVE}; {BIND_ADVICE}")
    __eq__ = _refusing(f"{NATIVE}; {BIND_ADVICE}")


class Poison:
    """A value that could not be followed; `why` says so."""

    __slots__ = ("why",)
    _sgc_symbol = True

    def __init__(self, why: str) -> None:
        self.why = why

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise refuse(self.why)

    __bool__ = __iter__ = __len__ = __str__ = __format__ = __index__ = __hash__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = __rmod__ = _refuse
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __pow__ = __rpow__ = _refuse
    __getitem__ = __setitem__ = __delitem__ = __contains__ = __neg__ = __pos__ = _refuse
    __enter__ = __exit__ = _refuse

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise refuse(self.why)


class Maybe:
    """In a dict: a value that is there on some paths only; `value` is UNSET on the others."""

    __slots__ = ("value",)
    _sgc_symbol = True

    def __init__(self, value: Symbol) -> None:
        self.value = value

    def get(self) -> Symbol:
        """The value where it is set."""
        found: Symbol = self.value.region.trace.expr("default", self.value, None)
        return found

    _WHY = "a value of this dict is set on some paths only; use .get(key), or set it before"
    __bool__ = __iter__ = __len__ = __str__ = __format__ = __hash__ = _refusing(_WHY)
    __eq__ = __ne__ = __getitem__ = __add__ = __radd__ = _refusing(_WHY)


class Whole:
    """Under the key `WHOLE` of a dict, which has no other then: all of it is dict symbol `value`,
    since a run decides which keys it has."""

    __slots__ = ("value",)
    _sgc_symbol = True

    def __init__(self, value: Symbol) -> None:
        self.value = value

    _WHY = (
        "a dict whose keys the run decides is used here in a way that is not compiled; it has "
        "d[k], get, setdefault, in, len, keys, values, items, copy and iteration"
    )
    __bool__ = __iter__ = __len__ = __str__ = __format__ = _refusing(_WHY)


class _WholeKey:
    __slots__ = ()

    def __repr__(self) -> str:
        return "..."


WHOLE: Any = _WholeKey()


def whole(value: Any) -> Symbol | None:
    """The one symbol that stands for a dict whose keys the run decides; None for anything else."""
    if type(value) is not dict or WHOLE not in value:
        return None
    found = value[WHOLE]
    if type(found) is Poison:
        raise refuse(found.why)
    symbol: Symbol = found.value
    return symbol


def as_data(value: Any) -> Any:
    """`value`; of a dict whose keys the run decides the symbol."""
    symbol = whole(value)
    return value if symbol is None else symbol


def check_sure(value: Any) -> Any:
    """`value`; refuses a dict of which some keys are set on some paths only, where all count."""
    if type(value) is dict and any(type(item) in (Maybe, Whole) for item in value.values()):
        raise refuse(Whole._WHY if WHOLE in value else Maybe._WHY)
    return value


MARKS = (Symbol, SymbolMethod, Spread, Poison, Maybe, Whole)


def is_stream(value: Any) -> bool:
    """Whether `value` is a state, fork, handle, generator or walk of the tracer."""
    return bool(getattr(type(value), "_sgc_stream", False))


def is_mark(value: Any) -> bool:
    """Whether `value` itself is a symbol or a marker."""
    return type(value) in MARKS
