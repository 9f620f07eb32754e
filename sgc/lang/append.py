"""Turns what `s += x` was given into operations of the stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sgc.lang.primitives import (
    Gen,
    Image,
    Primitive,
    Role,
    Select,
    Video,
    parts_of,
    refuse_block,
)
from sgc.lang.source import refusal
from sgc_ir.graph import Source

if TYPE_CHECKING:
    from sgc_runtime.executor.stream import Stream

Operation = Callable[[], Any]
HOLDS_PRIMITIVE = (
    "a {} that holds a primitive was appended; append its items one by one, or join them with +"
)


def operations(stream: Stream, x: Any, role: str | None, source: Source) -> Operation:
    """One operation that appends all of `x` in order. Raises CompileError for what is no text."""
    parts = [_as_it_is_now(part, role) for part in parts_of(x)]

    def run() -> None:
        for part in parts:
            _append(stream, part, source)

    return run


def _as_it_is_now(part: Any, role: str | None) -> Any:
    """`part` checked, and values as text: later changes of a list must not reach the prompt."""
    if isinstance(part, Role):
        if role is not None:
            raise refusal(f"{part.name}() inside of an open {role} turn; roles do not nest")
        return Role(part.name, tuple([_as_it_is_now(inner, part.name) for inner in part.parts]))
    if isinstance(part, Primitive | str):
        return part
    _check_value(part)
    return str(part)


def _check_value(value: Any) -> None:
    from sgc.lang.forks import ForkGroup
    from sgc.lang.handle import Handle
    from sgc.lang.state import ProgramState

    refuse_block(value)
    if isinstance(value, Handle):
        raise refusal('a sub-program was appended; append its h["v"], h.text() or h.value')
    if isinstance(value, ProgramState | ForkGroup):
        raise refusal('a branch was appended; append its f["v"] or f.text(), or join it')
    if holds_primitive(value):
        raise refusal(HOLDS_PRIMITIVE.format(type(value).__name__))
    if callable(value):
        name = getattr(value, "__name__", repr(value))
        raise refusal(f"{name} was appended, which is a function; append its result")


def holds_primitive(value: Any) -> bool:
    """Whether a gen, select, role or medium is anywhere inside of a list, tuple or dict."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return any(isinstance(item, Primitive) or holds_primitive(item) for item in value)
    return False


def _append(stream: Stream, part: Any, source: Source) -> None:
    match part:
        case Gen(name, params):
            stream.gen(name, params, source)
        case Select(name, choices, method):
            stream.select(name, choices, method, source)
        case Role(name, parts):
            stream.role_begin(name, source)
            for inner in parts:
                _append(stream, inner, source)
            stream.role_end(source)
        case Image(data):
            stream.media("image", data, 0, source)
        case Video(data, num_frames):
            stream.media("video", data, num_frames, source)
        case _:
            stream.append(part, source)
