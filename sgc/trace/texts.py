"""Texts of values in rewritten code: f-strings, `str`, `repr`, `format`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sgc.trace.operand import holds_symbol
from sgc.trace.refusal import refuse
from sgc.trace.symbol import BIND_ADVICE, Symbol, is_mark
from sgc.trace.taken import MIXED, QUESTION, MixedError, TracedError, TracedType

if TYPE_CHECKING:
    from sgc.trace.context import Trace

_CONVERSIONS = {"s": "str", "r": "repr", "a": "ascii"}
_NATIVE: dict[str, Callable[[Any], str]] = {"str": str, "repr": repr, "ascii": ascii}
_DATA = (list, tuple, dict)


class Texts:
    """The part of the runtime that makes texts."""

    trace: Trace

    def fstring(self, *parts: Any) -> Any:
        """The text of an f-string; neighbouring constants are put together."""
        joined: list[Any] = []
        for part in parts:
            if type(part) is str and joined and type(joined[-1]) is str:
                joined[-1] += part
            elif type(part) is not str or part:
                joined.append(part)
        if all(type(part) is str for part in joined):
            return "".join(joined)
        if len(joined) == 1:
            return joined[0]
        return self.trace.expr("concat", *joined)

    def field(self, value: Any, conversion: str, spec: Any) -> Any:
        """`{value!conversion:spec}`."""
        if conversion:
            value = self.text_of(value, _CONVERSIONS[conversion])
        return self.formatted(value, spec)

    def formatted(self, value: Any, spec: Any = "") -> Any:
        """`format(value, spec)`."""
        if type(spec) is str and not spec:
            if type(value) is Symbol and value.form.kind == "str":
                return value
            if not self._has_format(value):
                return self.text_of(value, "str")
        if self._is_run_time(value) or is_mark(spec):
            return self.trace.expr("format", value, spec)
        found = self.trace.runtime.dunder(value, "__format__")
        if found is not None:
            return found(spec)
        return format(value, spec)

    def _has_format(self, value: Any) -> bool:
        native = object.__dict__["__format__"]
        return getattr(type(value), "__format__", native) is not native and (
            type(value) not in _DATA
        )

    def _is_run_time(self, value: Any) -> bool:
        return is_mark(value) or (type(value) in _DATA and holds_symbol(value))

    def text_of(self, value: Any, how: str = "str") -> Any:
        """`str(value)`, `repr(value)` or `ascii(value)`."""
        if type(value) is TracedError:
            return value.text(how)
        if type(value) is MixedError:
            raise refuse(MIXED)
        if type(value) is TracedType:
            raise refuse(QUESTION)
        if self._is_run_time(value):
            if how == "str" and type(value) is Symbol and value.form.kind == "str":
                return value
            return self.trace.expr(how, value)
        names = ["__str__", "__repr__"] if how == "str" else ["__repr__"]
        for name in names:
            found = self.trace.runtime.dunder(value, name)
            if found is not None:
                text = found()
                return self.trace.expr(how, text) if how == "ascii" and is_mark(text) else text
        if holds_symbol(value):
            kind = type(value).__name__
            raise refuse(f"the text of a {kind} that holds run-time values; {BIND_ADVICE}")
        return _NATIVE[how](value)
