"""The three formatting operations of Python, with attribute access refused and sizes bounded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from string import Formatter
from typing import Any

from sgc_ir.errors import ExprError
from sgc_ir.expr_limits import guard_printable, guard_text, printed_length

_PERCENT_TAIL = re.compile(r"[#0\- +]*(\*|[0-9]*)(?:\.(\*|[0-9]*))?[hlL]?(.?)", re.DOTALL)
_SUBSCRIPTS = re.compile(r"\[[^\]]*(\]|$)")
_HUGE = 10**18  # stands for any larger number


def format_value(value: Any, spec: Any = "") -> str:
    """`format(value, spec)`."""
    guard_printable(value)
    if isinstance(spec, str):
        guard_text(_largest_number(spec))
    return format(value, spec)


def format_template(template: str, *args: Any, **kwargs: Any) -> str:
    """`template.format(*args, **kwargs)`; `{0.name}` is refused."""
    guard_text(_Template(args, kwargs).bound(template))
    return template.format(*args, **kwargs)


def format_percent(template: Any, values: Any) -> Any:
    """`template % values` for a str or bytes template."""
    guard_text(_percent_bound(template, values))
    return template % values


def _largest_number(text: str) -> int:
    numbers = [n.lstrip("0") for n in re.findall(r"\d+", text)]
    return max((int(n or "0") if len(n) < 18 else _HUGE for n in numbers), default=0)


class _Template:
    """Upper bound of the length that a `str.format` template gives."""

    def __init__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self._args = args
        self._kwargs = kwargs
        self._auto = 0

    def bound(self, template: str) -> int:
        total = len(template)
        for name, spec, conversion in self._fields(template):
            total += printed_length(self._look_up(name), conversion)
            if spec:
                total += self._spec_bound(spec)
            guard_text(total)
        return total

    def _spec_bound(self, spec: str) -> int:
        width = _largest_number(spec)
        for name, _spec, _conversion in self._fields(spec):
            value = self._look_up(name)
            guard_printable(value)
            width = max(width, _largest_number(str(value)))
        return width

    def _fields(self, template: str) -> Iterator[tuple[str, str, str]]:
        """The replacement fields up to the first that is malformed: there Python stops too."""
        try:
            for _literal, name, spec, conversion in Formatter().parse(template):
                if name is not None:
                    yield name, spec or "", conversion or "s"
        except ValueError:
            return  # the real call raises it again

    def _look_up(self, name: str) -> Any:
        bare = _SUBSCRIPTS.sub("", name)
        if "." in bare:
            raise ExprError(
                f"format field {{{name}}} reads an attribute; templates may use [..] only, "
                "pass the attribute as a value of its own"
            )
        first = name.partition("[")[0]
        if first == "":
            first, self._auto = str(self._auto), self._auto + 1
        if first.isdecimal():
            index = int(first) if len(first) < 9 else _HUGE
            return self._args[index] if index < len(self._args) else None
        return self._kwargs.get(first)


def _percent_bound(template: Any, values: Any) -> int:
    text = template.decode("latin-1") if isinstance(template, bytes) else template
    positional = values if isinstance(values, tuple) else (values,)
    largest_star = max((abs(v) for v in positional if isinstance(v, int)), default=0)
    total, kinds = len(text), {"s"}
    for key, numbers, kind in _percent_specs(text):
        kinds.add(kind)
        total += sum(largest_star if n == "*" else _largest_number(n) for n in numbers)
        if key is not None and isinstance(values, Mapping):
            value = values.get(key.encode("latin-1") if isinstance(template, bytes) else key)
            total += printed_length(value, kind if kind in "ra" else "s")
        guard_text(total)
    conversion = next((k for k in "ar" if k in kinds), "s")
    return total + sum(printed_length(v, conversion) for v in positional)


def _percent_specs(text: str) -> Iterator[tuple[str | None, tuple[str, str], str]]:
    """Key, (width, precision) and kind of each conversion, read as CPython reads them."""
    at = text.find("%")
    while at >= 0:
        key, at = _percent_key(text, at + 1)
        match = _PERCENT_TAIL.match(text, at)
        if match is None:
            return
        yield key, (match[1] or "", match[2] or ""), match[3]
        at = text.find("%", match.end())


def _percent_key(text: str, at: int) -> tuple[str | None, int]:
    """The bracketed key that starts at `at`, if any, and the position behind it."""
    if not text.startswith("(", at):
        return None, at
    depth, start = 0, at + 1
    for position in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if depth == 0:
            return text[start:position], position + 1
    return None, len(text)
