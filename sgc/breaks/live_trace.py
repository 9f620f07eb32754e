"""A tracer for one row that runs: values of the row are constants, and no effect happens twice.

What is traced may be thrown away and then run by Python, so library code is called only where it
is known to change nothing and to give the same each time.
"""

from __future__ import annotations

import builtins
import types
from collections import defaultdict, deque
from collections.abc import Callable, Container, Mapping
from types import FunctionType, ModuleType
from typing import Any

from sgc.breaks.pieces import is_native_piece
from sgc.lang.tools import Tool
from sgc.trace.containers import is_followed
from sgc.trace.context import Trace
from sgc.trace.log import Log
from sgc.trace.refusal import refuse
from sgc.trace.runtime import Runtime
from sgc.trace.subprogram import Driver
from sgc.trace.symbol import is_mark, is_stream

# Modules whose functions depend on their arguments only, and change nothing.
PURE_MODULES = frozenset(
    "re math cmath json string textwrap html fractions decimal statistics operator copy bisect "
    "unicodedata difflib keyword colorsys base64 binascii zlib types enum dataclasses typing "
    "collections numbers".split()
)
_PURE_TYPES = (
    str, bytes, int, float, bool, complex, list, tuple, dict, set, frozenset, range, slice,
    types.SimpleNamespace, type(None),
)  # fmt: skip
_READING = frozenset(
    "get items keys values index count copy union intersection difference issubset issuperset "
    "isdisjoint symmetric_difference".split()
)
_FIXED = ("re", "fractions", "decimal")  # their objects do not change
_IMPURE = frozenset(("breakpoint", "exit", "help", "input", "open", "print", "quit", "id", "hash"))


class LiveLog(Log):
    """Refuses changes of what other rows see too.

    Attributes:
        shared: ids of containers that the program reaches from outside of the row.
        read: id of one that is about to be read only.
    """

    __slots__ = ("read", "shared")

    def __init__(self) -> None:
        super().__init__()
        self.shared: Container[int] = ()
        self.read = 0

    def touch(self, value: Any) -> None:
        """`value` is about to be changed, or read."""
        if id(value) in self.shared:
            is_read, self.read = self.read == id(value), 0
            if not is_read:
                raise refuse(f"a {type(value).__name__} from outside of the program is changed")
        super().touch(value)


class LiveTrace(Trace):
    """The tracer of one body of a row; each region of it is a graph of its own."""

    log: LiveLog

    def __init__(self, name: str) -> None:
        super().__init__(log=LiveLog())
        self.main = name
        self.runtime = LiveRuntime(self)
        self.used: dict[str, Tool] = {}
        self.calls_programs = True  # else Python does, since a handle's error or usage is read
        self.twins: dict[int, tuple[Any, Callable[..., Any]]] = {}

    def care(self, takes_errors: bool) -> None:
        """Say whether a `try` may take what is raised from now on, also by sub-programs."""
        if takes_errors != self.takes_errors:
            self.callees.clear()  # their graphs stop at other places
        self.takes_errors, self.strict = takes_errors, "every" if takes_errors else ""

    def begin_region(self) -> None:
        """Forget the region before; the budget of nodes is that of one region."""
        self.streams, self.families, self.facts.known = [], [], {}
        self.regions.clear()
        self.left_iterators = []
        self.size = 0

    def check_followed(self, value: Any, what: str) -> None:
        """Refuse a change of hidden state, which could not be taken back."""
        if not is_followed(value):
            raise refuse(f"{what} of a {type(value).__name__} is changed; Python does it")


class LiveRuntime(Runtime):
    """What rewritten code calls while a row runs."""

    def call(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        """`fn(*args, **kwargs)`."""
        if fn is print:
            raise refuse("print does something; Python runs it")
        return super().call(fn, *args, **kwargs)

    def foreign(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call library code, if calling it once more would do no harm."""
        calls_back = any(map(_is_function, (*args, *kwargs.values())))
        if calls_back or not _is_pure(fn):
            name = getattr(fn, "__qualname__", None) or repr(fn)
            raise refuse(f"{name} is library code that may do something; Python runs it")
        for value in (*args, *kwargs.values()):
            self._check_foreign(fn, value)
        given = [self._guarded(a) for a in args]
        named = {k: self._guarded(v) for k, v in kwargs.items()}
        return self.own_iterator(fn(*given, **named))

    def method(self, owner: Any, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """`owner.name(*args, **kwargs)`."""
        trace = self.trace
        assert isinstance(trace, LiveTrace), "the runtime of a live trace"
        if id(owner) in trace.log.shared:
            is_object = not isinstance(owner, list | dict | set | deque | bytearray)
            trace.log.read = id(owner) if is_object or name in _READING else 0
        return super().method(owner, name, *args, **kwargs)

    def foreign_method(
        self, owner: Any, method: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a method of a library's object, if it cannot change."""
        self._check_foreign(method, owner)
        fixed = isinstance(owner, ModuleType | type) or _module(type(owner)) in _FIXED
        if not fixed and type(owner) not in _PURE_TYPES:
            raise refuse(
                f"a method of a {type(owner).__name__}, which is a library's object, may change "
                "it; Python runs it"
            )
        return self.foreign(method, args, kwargs)

    def with_(self, manager: Any, body: Callable[..., Any]) -> Any:
        """`with manager:`, where its parts are the tracer's or the user's."""
        if not is_stream(manager) and self.dunder(manager, "__enter__") is None:
            raise refuse("a `with` block of library code; Python runs it")
        return super().with_(manager, body)

    def item(self, value: Any, index: Any) -> Any:
        """`value[index]`, where reading changes nothing."""
        if isinstance(value, defaultdict) and not is_mark(index) and index not in value:
            raise refuse("a missing key of a defaultdict is made; Python does it")
        return super().item(value, index)

    def check_iterator(self, iterator: Any) -> None:
        """Refuse to go on with an iterator from before the statement."""
        if not any(own is iterator for own, _ in self.trace.region.iterators):
            raise refuse("an iterator from an earlier statement is used; Python runs it")
        super().check_iterator(iterator)

    def native(
        self, fn: FunctionType, kept: str | None = None, line: int = 1
    ) -> Callable[..., Any]:
        """The rewritten form of a user's function; local ones have theirs from their `def`."""
        trace = self.trace
        assert isinstance(trace, LiveTrace), "the runtime of a live trace"
        twin = trace.twins.get(id(fn))
        if twin is not None:
            return twin[1]
        if is_native_piece(fn.__code__):
            raise refuse(f"{fn.__name__} was made by a statement that Python ran")
        return super().native(fn, kept, line)

    def _lazy(self, fn: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        raise refuse(f"{fn.__name__} is a generator or async function; Python runs it")


class LiveDriver(Driver):
    """What `sub(x)` and `sgc.call(tool, x)` reach in a region."""

    def __init__(self, trace: LiveTrace, bridge: Any = None) -> None:
        super().__init__(trace)
        self._live = trace
        self.bridge = bridge  # what handles of running sub-programs ask; it refuses

    def sub_program(self, program: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if not self._live.calls_programs:
            raise refuse("an error or the usage of a sub-program may be read; Python calls it")
        return super().sub_program(program, args, kwargs)

    def tool_call(self, tool: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if self._live.used.setdefault(tool.name, tool) is not tool:
            raise refuse(f"two tools are named {tool.name!r}; give one of them another name")
        return super().tool_call(tool, args, kwargs)


def _is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, type)


def _is_pure(fn: Any) -> bool:
    if isinstance(fn, type):
        return _is_pure_type(fn)
    owner = getattr(fn, "__self__", None)
    if isinstance(owner, type):
        return _is_pure_type(owner)
    if owner is not None and not isinstance(owner, ModuleType):
        return type(owner) in _PURE_TYPES or _module(type(owner)) in _FIXED
    name = getattr(fn, "__name__", "")
    if getattr(builtins, name, None) is fn:
        return name not in _IMPURE
    return _module(fn) in PURE_MODULES


def _is_pure_type(cls: type) -> bool:
    return cls in _PURE_TYPES or issubclass(cls, BaseException) or _module(cls) in PURE_MODULES


def _module(value: Any) -> str:
    return str(getattr(value, "__module__", None) or "").partition(".")[0].lstrip("_")
