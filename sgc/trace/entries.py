"""What a stream's variables hold while compiling, and checks of what is appended to a stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sgc.lang.append import HOLDS_PRIMITIVE, holds_primitive
from sgc.lang.primitives import Primitive, Role, refuse_block
from sgc.trace.facts import BOTH, distinct
from sgc.trace.form import Form
from sgc.trace.refusal import refuse
from sgc.trace.schema_form import values_of_schema
from sgc.trace.symbol import Spread, Symbol, is_mark, is_stream

if TYPE_CHECKING:
    from sgc.trace.context import Trace
    from sgc.trace.region import Region
    from sgc.trace.stream import Stream


@dataclass(frozen=True)
class Written:
    """A variable whose value node `node` of `region` gives; `may_be_unset` where that depends on
    the number of branches, which the run decides, or (`is_maybe`) on the path that was taken."""

    region: Region
    node: int
    form: Form
    may_be_unset: bool = False
    is_maybe: bool = False


@dataclass(frozen=True)
class Given:
    """A variable that `set` wrote."""

    value: Any


@dataclass(frozen=True)
class Selected(Given):
    """A variable of a branch that the run chooses; its metadata is not followed."""


@dataclass(frozen=True)
class Gathered:
    """A variable that `join`, node `node` of `region`, made of those of the branches."""

    entries: tuple[Any, ...]
    region: Region
    node: int


def choices_of(attrs: Mapping[str, Any]) -> Any:
    """The values that a select or gen can give, where they are known and few."""
    if attrs.get("n", 1) != 1:
        return None
    choices = attrs.get("choices")
    if isinstance(choices, tuple | list):
        return distinct(choices)
    listed = values_of_schema(attrs.get("json_schema"))
    if listed is not None:
        return distinct(listed)
    return BOTH if attrs.get("dtype") in ("bool", bool) else None


def may_be_unset(entry: Any) -> bool:
    """Whether only the run says if the variable is set."""
    return isinstance(entry, Written) and entry.may_be_unset


def check_gathered(name: str, inherited: Any) -> None:
    """Refuse a gather of a variable of which only the run can say whether the parent had it."""
    if may_be_unset(inherited):
        raise refuse(
            f"variable {name!r} is written by branches, and whether their parent had it depends on "
            "a number of branches that the run decides; choose another name"
        )


def variable_name(name: Any) -> str:
    if is_mark(name):
        raise refuse("the name of a variable is a run-time value; give a constant")
    if not isinstance(name, str):
        raise refuse(f"the name of a variable is {name!r}; give a string")
    return name


def check_part(part: Any, role: str | None) -> None:
    if is_mark(part):
        if type(part) is Spread:
            raise refuse("a part of a list is appended; append an item of it")
        return
    if isinstance(part, Role):
        if role is not None:
            raise refuse(f"{part.name}() inside of an open {role} turn; roles do not nest")
        for inner in part.parts:
            check_part(inner, part.name)
    elif not isinstance(part, Primitive):
        _check_value(part)


def _check_value(value: Any) -> None:
    from sgc.trace.handle import TracedHandle

    refuse_block(value)
    if isinstance(value, TracedHandle):
        raise refuse('a sub-program was appended; append its h["v"], h.text() or h.value')
    if is_stream(value):
        raise refuse('a branch was appended; append its f["v"] or f.text(), or join it')
    if holds_primitive(value):
        raise refuse(HOLDS_PRIMITIVE.format(type(value).__name__))
    if callable(value):
        name = getattr(value, "__name__", repr(value))
        raise refuse(f"{name} was appended, which is a function; append its result")


def writer(trace: Trace, stream: Stream, name: str, entry: Any) -> Any:
    """The node that wrote a variable, or its value as an operand; the program reads nothing."""
    if isinstance(entry, Written):
        return trace.region.lift(Symbol(entry.region, entry.node))
    if isinstance(entry, Gathered):
        return [writer(trace, stream, name, e) for e in entry.entries]
    return trace.operand(stream.value_of(name, entry, "value"))
