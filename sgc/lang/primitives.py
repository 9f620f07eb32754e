"""What a program appends to its stream: frozen records that join with `+`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sgc.lang.current import is_live
from sgc.lang.source import is_own_module, refusal
from sgc_ir.params import CHOICE_METHODS, COMPILED, CONSTRAINTS, STYLE_ALONE, normalize
from sgc_runtime.executor.stream import is_unnamed
from sgc_runtime.executor.tools import own_copy

ROLES = ("system", "user", "assistant")


class Primitive:
    """Base of the records; `a + b` with text, a value or another one keeps the order."""

    __slots__ = ()

    def __add__(self, other: Any) -> Concat:
        _check_operand(other)
        return Concat((*parts_of(self), *parts_of(other)))

    def __radd__(self, other: Any) -> Concat:
        _check_operand(other)
        return Concat((*parts_of(other), *parts_of(self)))

    def __str__(self) -> str:
        raise refusal(
            f"a {type(self).__name__} became text, so that it would not happen; add it to the text "
            'instead: s += "..." + sgc.gen(...)'
        )

    def __format__(self, spec: str) -> str:
        return str(self)


@dataclass(frozen=True, slots=True)
class Concat(Primitive):
    """Pieces in order: texts, values and primitives."""

    parts: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Gen(Primitive):
    """Generate into variable `name` (None: unnamed) with the parameters that were given."""

    name: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Select(Primitive):
    """Append the most likely of `choices`; `gen(choices=...)` gives one as well."""

    name: str | None
    choices: Any
    method: Any = CHOICE_METHODS[0]


@dataclass(frozen=True, slots=True)
class Role(Primitive):
    """One chat turn."""

    name: str
    parts: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Image(Primitive):
    """`data`: a path, a URL, or the encoded bytes."""

    data: Any


@dataclass(frozen=True, slots=True)
class Video(Primitive):
    """`data`: a path, a URL, or the encoded bytes; `num_frames` frames are taken from it."""

    data: Any
    num_frames: Any


def parts_of(value: Any) -> tuple[Any, ...]:
    """The pieces that `value` stands for when it is appended."""
    return value.parts if isinstance(value, Concat) else (value,)


def refuse_block(value: Any) -> None:
    """Refuse `s.copy()`, `s.user()` and the like without `with`. Raises CompileError."""
    if not is_symbol(value) and issubclass(type(value), AbstractContextManager):
        raise refusal(
            f"a {type(value).__name__} is no text; s.copy(), s.user() and the like are blocks: "
            "write `with s.copy() as t:` and append inside of it"
        )


def _check_operand(value: Any) -> None:
    """Refuse what `a + b` would leave as it is, where `a += b` was meant. Raises CompileError."""
    refuse_block(value)
    if hasattr(type(value), "__iadd__") and is_own_module(type(value).__module__):
        raise refusal("`s + x` appends nothing; write `s += x`")


def is_symbol(value: Any) -> bool:
    """Whether `value` itself is a symbol of the tracer."""
    return bool(getattr(type(value), "_sgc_symbol", False))


def is_symbolic(value: Any) -> bool:
    """Whether `value` is, or holds, a symbol of the tracer."""
    if is_symbol(value):
        return True
    if isinstance(value, list | tuple | set):
        return any(is_symbolic(v) for v in value)
    return isinstance(value, dict) and any(is_symbolic(v) for v in value.values())


def gen(
    name: str | None = None,
    *,
    max_tokens: int | None = None,
    min_tokens: int | None = None,
    n: int | None = None,
    stop: str | Iterable[str] | None = None,
    stop_token_ids: Iterable[int] | None = None,
    stop_regex: str | Iterable[str] | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    top_k: int | None = None,
    min_p: float | None = None,
    frequency_penalty: float | None = None,
    presence_penalty: float | None = None,
    repetition_penalty: float | None = None,
    logit_bias: Mapping[str, float] | None = None,
    ignore_eos: bool | None = None,
    seed: int | None = None,
    logprobs: bool | None = None,
    top_logprobs: int | None = None,
    regex: str | None = None,
    json_schema: Any = None,
    json_style: str | None = None,
    grammar: str | None = None,
    choices: Iterable[str] | None = None,
    method: str | None = None,
    distribution: str | None = None,
    dtype: type | str | None = None,
    heal: bool | None = None,
) -> Gen | Select:
    """Generate text into variable `name`.

    Parameters that are left out come from the run's defaults. At most one of `regex, json_schema,
    grammar, choices, dtype` constrains the text; `choices` makes it a `select`. `json_schema` is a
    schema (dict, bool or JSON text), a pydantic model or a dataclass, and the variable the parsed
    value; `json_style` its white space: "spaced" (default), "compact" or "pretty".
    Raises CompileError for a constant that is not valid, for a constraint that cannot be used, or
    for two constraints together.
    """
    return _checked_gen(
        name, {k: _frozen(v) for k, v in locals().items() if k != "name" and v is not None}
    )


def _checked_gen(name: str | None, given: dict[str, Any]) -> Gen | Select:
    check_name("gen", name)
    _check_constraints(given)
    _check_constants("gen" if name is None else f"gen {name!r}", given)
    if "choices" in given:
        return Select(name, given["choices"], given.get("method", CHOICE_METHODS[0]))
    return Gen(name, given)


def select(
    name: str | None = None,
    choices: Iterable[str] | None = None,
    method: str = CHOICE_METHODS[0],
) -> Select:
    """Append the most likely of `choices` and put it into variable `name`.

    Raises CompileError for choices that are missing, empty or equal, or an unknown method.
    """
    check_name("select", name)
    if choices is None and not is_live():
        raise refusal("select: no choices; give a list of strings")
    frozen = _frozen(choices)
    _check_constants("select", {"choices": frozen, "method": method})
    return Select(name, frozen, method)


def system(x: Any) -> Role:
    """A system turn."""
    return _role("system", x)


def user(x: Any) -> Role:
    """A user turn."""
    return _role("user", x)


def assistant(x: Any) -> Role:
    """An assistant turn; a gen in it also ends at the template's end-of-turn token."""
    return _role("assistant", x)


def image(x: Any) -> Image:
    """An image: a path, a URL, encoded bytes, or a PIL image (which is encoded as PNG)."""
    return Image(_media("image", x))


def video(x: Any, num_frames: int) -> Video:
    """A video, of which `num_frames` frames are used: a path, a URL, or encoded bytes."""
    valid = isinstance(num_frames, int) and not isinstance(num_frames, bool) and num_frames > 0
    if not is_symbolic(num_frames) and not valid:
        raise refusal(f"video: num_frames={num_frames!r}; give a number of frames above 0")
    return Video(_media("video", x), num_frames)


def vote(values: Iterable[Any]) -> Any:
    """The value that most of `values` are equal to; on ties the one that came first.

    Raises ValueError when there are none.
    """
    from sgc_ir.expr import evaluate

    return evaluate("vote", [list(values)], {})


def _role(name: str, x: Any) -> Role:
    parts = parts_of(x)
    for part in parts:
        if isinstance(part, Role):
            raise refusal(
                f"{part.name}() inside of {name}(); roles do not nest, append them in turn"
            )
    return Role(name, parts)


def _media(kind: str, x: Any) -> Any:
    if is_symbolic(x) or isinstance(x, str | bytes):
        return x
    if isinstance(x, bytearray | memoryview):
        return bytes(x)
    if isinstance(x, Path):
        return str(x)
    if kind == "image" and hasattr(x, "save") and hasattr(x, "mode"):
        return _png(x)
    raise refusal(f"{kind}: got {type(x).__name__}; give a path, a URL or the encoded bytes")


def _png(picture: Any) -> bytes:
    from io import BytesIO

    buffer = BytesIO()
    picture.save(buffer, format="PNG")
    return buffer.getvalue()


def _frozen(value: Any) -> Any:
    """An argument of gen as it is now; lists and iterators become tuples."""
    if not is_symbol(value) and (isinstance(value, list) or hasattr(value, "__next__")):
        return tuple(value)
    return own_copy(value)


def check_name(what: str, name: Any) -> None:
    """Refuse what cannot name a variable. Raises CompileError."""
    if name is None:
        return
    if not isinstance(name, str) or not name or is_symbolic(name):
        shown = "a run-time value" if is_symbolic(name) else repr(name)
        raise refusal(f"{what}: the variable's name is {shown}; give a constant, non-empty string")
    if is_unnamed(name):
        raise refusal(f"{what}: names like {name!r} are those of unnamed gens; choose another")


def _check_constraints(given: Mapping[str, Any]) -> None:
    together = [c for c in CONSTRAINTS if c in given]
    if len(together) > 1:
        raise refusal(f"gen: {' and '.join(together)} together; a gen takes one constraint")
    n = given.get("n", 1)
    if "choices" in given and (is_symbolic(n) or n != 1):
        raise refusal("gen: n > 1 together with choices; choices are deterministic, drop n")
    if "method" in given and "choices" not in given:
        raise refusal("gen: method without choices; it says how choices are scored")
    if "json_style" in given and "json_schema" not in given:
        raise refusal(f"gen: {STYLE_ALONE}")


def _check_constants(what: str, given: Mapping[str, Any]) -> None:
    if is_live():  # the values may be data of the row: a bad one fails its node
        return
    try:
        values = normalize({k: v for k, v in given.items() if not is_symbolic(v)})
    except (ValueError, TypeError) as error:
        raise refusal(f"{what}: {error}") from None
    if any(name in values for name in COMPILED):
        from sgc_ir.automata.check import constraint_problem  # numpy and more; few programs pay

        problem = constraint_problem(values)
        if problem is not None:
            raise refusal(f"{what}: {problem}")
