"""Keywords about types, numbers and strings: what each allows, and what its negation allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from sgc_ir.automata.pool import Pool
from sgc_ir.automata.schema.cells import ALL, NONE, Form, Numbers, Strings
from sgc_ir.automata.schema.document import Document
from sgc_ir.automata.schema.formats import FORMATS, UNCHECKED, WIDE, WIDTHS
from sgc_ir.automata.schema.keywords import (
    TYPES,
    count,
    exact,
    malformed,
    text,
    unsupported,
)
from sgc_ir.automata.schema.patterns import readable_pattern
from sgc_ir.errors import ConstraintError

Handler = Callable[[dict[str, Any], str, bool], Form]  # schema, pointer of the keyword, sign


_SHOWN = 60  # characters of a pattern in a message
EXCLUSIVE = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}


def _numbers(cell: Numbers, sign: bool) -> Form:
    """Numbers of `cell`, and with `sign` every value that is no number."""
    return replace(ALL, numbers=(cell,)) if sign else Form(numbers=(cell,))


def _strings(cell: Strings, sign: bool) -> Form:
    return replace(ALL, strings=(cell,)) if sign else Form(strings=(cell,))


def _type(schema: dict[str, Any], where: str, sign: bool) -> Form:
    value = schema["type"]
    wanted = [value] if isinstance(value, str) else value
    if not isinstance(wanted, list) or not all(name in TYPES for name in wanted):
        raise malformed(f"a type is one of {', '.join(TYPES)}, or an array of them", where)
    has = {name: (name in wanted) == sign for name in TYPES}
    return Form(
        has["null"],
        ALL.booleans if has["boolean"] else frozenset(),
        _type_numbers(wanted, sign),
        ALL.strings if has["string"] else (),
        ALL.arrays if has["array"] else (),
        ALL.objects if has["object"] else (),
    )


def _type_numbers(wanted: list[str], sign: bool) -> tuple[Numbers, ...]:
    if "number" in wanted:
        return ALL.numbers if sign else ()
    if "integer" in wanted:
        if sign:
            return (Numbers(step=Fraction(1), integral=True),)
        return (Numbers(no_steps=frozenset({Fraction(1)})),)
    return () if sign else ALL.numbers


def _bound(word: str, upper: bool) -> Handler:
    exclusive = word.startswith("exclusive")
    partner = "exclusiveMaximum" if upper else "exclusiveMinimum"

    def handler(schema: dict[str, Any], where: str, sign: bool) -> Form:
        value = schema[word]
        if exclusive and isinstance(value, bool):  # draft-4: read with the bound itself
            return ALL if sign else NONE
        limit = exact(value, where)
        is_open = exclusive or schema.get(partner) is True
        if upper == sign:
            cell = Numbers(high=limit, high_open=is_open if sign else not is_open)
        else:
            cell = Numbers(low=limit, low_open=is_open if sign else not is_open)
        return _numbers(cell, sign)

    return handler


def check_exclusive(word: str, schema: dict[str, Any], where: str, document: Document) -> None:
    """Refuse a bound that is true or false, but in draft 4 beside the bound itself."""
    if not isinstance(schema[word], bool):
        return
    if not document.boolean_bounds:
        raise malformed(f"{word} is a number since draft 6", where)
    if EXCLUSIVE[word] not in schema:
        raise malformed(f"{word} says something of {EXCLUSIVE[word]}, which is missing", where)


def _multiple_of(schema: dict[str, Any], where: str, sign: bool) -> Form:
    step = exact(schema["multipleOf"], where)
    if step <= 0:
        raise malformed("expected a number above 0", where)
    return _numbers(Numbers(step=step) if sign else Numbers(no_steps=frozenset({step})), sign)


def _length(word: str, upper: bool) -> Handler:
    def handler(schema: dict[str, Any], where: str, sign: bool) -> Form:
        length = count(schema[word], where)
        if upper == sign:
            high = length if sign else length - 1
            return NONE if high < 0 else _strings(Strings(high=high), sign)
        return _strings(Strings(low=length if sign else length + 1), sign)

    return handler


def pattern_form(schema: dict[str, Any], where: str, sign: bool, pool: Pool) -> Form:
    """What `pattern` allows; it is read in the time of `pool`."""
    pattern = readable(text(schema["pattern"], where), where, pool)
    return _strings(Strings(patterns=frozenset({(pattern, sign)})), sign)


def readable(pattern: str, where: str, pool: Pool) -> str:
    """`pattern` as Python reads it; looked at already here so that a refusal has its place."""
    try:
        return readable_pattern(pattern, pool)
    except ConstraintError as error:
        shown = repr(pattern) if len(pattern) <= _SHOWN else f"{pattern[:_SHOWN]!r}..."
        reason = f"the pattern {shown}: {error.reason}"
        raise ConstraintError(reason, kind=error.kind, where=where) from error


def _format(schema: dict[str, Any], where: str, sign: bool) -> Form:
    name = text(schema["format"], where)
    if sign and name in WIDTHS:
        high = Fraction(2 ** WIDTHS[name])
        return _numbers(Numbers(low=-high, high=high - 1), sign)
    if name in UNCHECKED:
        return ALL if sign else NONE
    if name not in FORMATS:
        raise unsupported(f"the format {name!r}", where)
    if sign:
        return _strings(Strings(formats=frozenset({name})), sign)
    if name not in WIDE:
        raise unsupported(f"the negation of the format {name!r}", where)
    return _strings(Strings(patterns=frozenset({(WIDE[name], False)})), sign)


HANDLERS: dict[str, Handler] = {
    "type": _type,
    "minimum": _bound("minimum", False),
    "maximum": _bound("maximum", True),
    "exclusiveMinimum": _bound("exclusiveMinimum", False),
    "exclusiveMaximum": _bound("exclusiveMaximum", True),
    "multipleOf": _multiple_of,
    "minLength": _length("minLength", False),
    "maxLength": _length("maxLength", True),
    "format": _format,
}
