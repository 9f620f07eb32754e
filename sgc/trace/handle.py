"""What `sub(x)` gives while compiling: the handle of a sub-program that will run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sgc.trace.attempts import see
from sgc.trace.form import STR, UNKNOWN, Form
from sgc.trace.refusal import refuse
from sgc.trace.symbol import Symbol, is_mark
from sgc_ir.ops import Op

if TYPE_CHECKING:
    from sgc.trace.context import Trace


class TracedHandle:
    """`h["v"]`, `h.get`, `in`, `h.text()`, `h.messages()`, `h.meta`, `h.value`."""

    _sgc_stream = True

    def __init__(self, trace: Trace, symbol: Symbol) -> None:
        self._trace = trace
        self.symbol = symbol

    @property
    def _callee(self) -> Any:
        return self.symbol.form.target

    @property
    def value(self) -> Any:
        """The return value."""
        return self._read("result", "result", self._callee.value)

    def __getitem__(self, name: Any) -> Any:
        return self._variable(name, "value")

    def meta(self, name: Any) -> Any:
        """Facts about the call that wrote a variable."""
        return self._variable(name, "meta")

    def get(self, name: Any, default: Any = None) -> Any:
        """The value of a variable, or `default` when it is never set."""
        return self[name] if name in self else default

    def __contains__(self, name: Any) -> bool:
        if is_mark(name):
            raise refuse("the name of a variable is a run-time value; give a constant")
        if name in self._callee.unsure:
            raise refuse(
                f"whether {self._callee.program} sets variable {name!r} depends on a number of "
                "branches that the run decides; let it set the variable before"
            )
        return name in self._callee.variables

    def __iter__(self) -> Any:
        raise TypeError("a handle cannot be iterated; read its variables by name")

    def text(self) -> Any:
        """The whole text."""
        return self._read("text", "text", STR)

    def messages(self) -> Any:
        """The chat turns."""
        return self._read("messages", "messages", Form("list"))

    def error(self) -> Any:
        """Refused: errors appear while a program runs."""
        raise refuse("h.error() is not compiled; read it from the finished state")

    def _variable(self, name: Any, field: str) -> Any:
        callee = self._callee
        if name not in callee.variables:
            known = ", ".join(n for n in callee.variables if n[0] != "_") or "nothing"
            raise refuse(f"variable {name!r} is not set in {callee.program}; set there: {known}")
        form = callee.variables[name] if field == "value" else Form("dict")
        return self._read(name, field, form or UNKNOWN)

    def _read(self, name: str, field: str, form: Form) -> Any:
        trace = self._trace
        attrs: dict[str, Any] = {"name": name, "of": trace.ref(self.symbol)}
        if field != "value":
            attrs["field"] = field
        node = trace.node(Op.VARIABLE, attrs, may_fail=False)
        see(trace, trace.region, node, "any")
        return Symbol(trace.region, node, form)
