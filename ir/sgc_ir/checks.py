"""Rules for gen's arguments: one row a parameter, each a check that also normalises.

Whether a regex, schema or grammar can be used is not looked at here (`sgc_ir.automata.check`).
Values must be concrete; callers keep symbolic ones away. Every refusal is a ValueError or
TypeError whose one-line message names the parameter and what would be accepted.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

from sgc_ir.params import CHOICE_METHODS, DISTRIBUTIONS, DTYPES, JSON_STYLES, SamplingParams

MAX_PATTERN_CHARS = 1_000_000  # regex, grammar; beyond it a mistake is likelier than a pattern
MAX_SAMPLES = 10_000  # n; each is a sequence with memory of its own
_MAX_SEED = 2**63 - 1
_LARGEST = sys.float_info.max
_DTYPE_OF_TYPE = {int: "int", float: "float", bool: "bool", str: "str"}


def check_param(name: str, value: Any) -> Any:
    """`value` of gen's argument `name`, normalised to the form of `SamplingParams`.

    Raises ValueError or TypeError with a one-line reason that names the parameter.
    """
    rule = RULES.get(name)
    if rule is None:
        raise ValueError(f"unknown parameter {name!r}; known are {', '.join(sorted(RULES))}")
    return rule(name, value)


def _short(value: Any) -> str:
    text = repr(value) if not isinstance(value, int) or abs(value) < 10**60 else hex(value)
    return _shortened(text, 60)


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _line(error: Exception) -> str:
    return _shortened(" ".join(str(error).split()) or type(error).__name__, 200)


def _integer(low: int, high: int | None = None) -> Callable[[str, Any], int]:
    span = f">= {low}" if high is None else f"from {low} to {high}"

    def rule(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name}={_short(value)}: expected an integer {span}")
        if value < low or (high is not None and value > high):
            raise ValueError(f"{name}={_short(value)}: expected an integer {span}")
        return int(value)

    return rule


def _number(low: float, high: float, *, open_low: bool = False) -> Callable[[str, Any], float]:
    above = "above" if open_low else "from"
    span = f"{above} {low:g}" + ("" if high == math.inf else f" to {high:g}")

    def rule(name: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{name}={_short(value)}: expected a number {span}")
        inside = low < value <= high if open_low else low <= value <= high
        if not inside or abs(value) > _LARGEST:
            raise ValueError(f"{name}={_short(value)}: expected a finite number {span}")
        return float(value)

    return rule


def _boolean(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name}={_short(value)}: expected True or False")
    return value


def _one_of(allowed: tuple[str, ...]) -> Callable[[str, Any], str]:
    def rule(name: str, value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"{name}={_short(value)}: expected one of {', '.join(allowed)}")
        return str(value)

    return rule


def _dtype(name: str, value: Any) -> str:
    if isinstance(value, type):
        value = _DTYPE_OF_TYPE.get(value, value)
    return _one_of(DTYPES)(name, value)


def _strings(name: str, value: Any) -> tuple[str, ...]:
    items = (value,) if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        raise TypeError(f"{name}={_short(value)}: expected a string or a list of strings")
    for item in items:
        if not isinstance(item, str):
            raise TypeError(f"{name}: {_short(item)} is not a string")
        if not item:
            raise ValueError(f"{name}: the empty string is not allowed")
    return tuple(map(str.__str__, items))  # that of an enum, too


def _token_ids(name: str, value: Any) -> tuple[int, ...]:
    items = value if isinstance(value, list | tuple) else (value,)
    return tuple(_integer(0)(name, item) for item in items)


def _compile_regex(name: str, value: str) -> re.Pattern[str]:
    if len(value) > MAX_PATTERN_CHARS:
        raise ValueError(f"{name}: longer than {MAX_PATTERN_CHARS} characters")
    try:
        return re.compile(value)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(
            f"{name}={_short(value)}: not a regular expression: {_line(error)}"
        ) from error


def _pattern(wanted: str) -> Callable[[str, Any], str]:
    def rule(name: str, value: Any) -> str:
        if not isinstance(value, str):
            raise TypeError(f"{name}={_short(value)}: expected {wanted} as a string")
        if len(value) > MAX_PATTERN_CHARS:
            raise ValueError(f"{name}: longer than {MAX_PATTERN_CHARS} characters")
        return value

    return rule


def _stop_regex(name: str, value: Any) -> tuple[str, ...]:
    patterns = _strings(name, value)
    for pattern in patterns:
        if _compile_regex(name, pattern).fullmatch(""):
            raise ValueError(f"{name}={_short(pattern)} matches the empty text, it stops at once")
    return patterns


def _choices(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError(f"{name}={_short(value)}: expected a list of strings")
    choices = _strings(name, value)
    if not choices:
        raise ValueError(f"{name} is empty; give at least one choice")
    seen: set[str] = set()
    for choice in choices:
        if choice in seen:
            raise ValueError(f"{name}: {_short(choice)} stands there twice; choices must differ")
        seen.add(choice)
    return choices


def _logit_bias(name: str, value: Any) -> dict[str, float]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name}={_short(value)}: expected a mapping of token id to number")
    bias: dict[str, float] = {}
    for key, number in value.items():
        text = str(key) if not isinstance(key, bool) else "bool"
        if not re.fullmatch("[0-9]{1,10}", text, re.ASCII):
            raise ValueError(f"{name}: key {_short(key)} is not a token id")
        bias[str(int(text))] = _number(-100, 100)(f"{name}[{text}]", number)
    return bias


def _json_schema(name: str, value: Any) -> Any:
    """Plain JSON data of a schema given as data, JSON text, pydantic model or dataclass."""
    from sgc_ir.automata.schema.source import schema_source
    from sgc_ir.errors import ConstraintError

    value = list(value) if isinstance(value, tuple) else value  # as it was written
    try:
        return schema_source(value)
    except ConstraintError as error:
        raise ValueError(f"{name}={_short(value)}: {_line(error)}") from error


def exact_problem(params: SamplingParams) -> str | None:
    """Why a gen with these parameters cannot be `distribution="exact"`, or None."""
    if params.distribution != "exact":
        return None
    name = params.constraint
    if name == "choices":
        return 'distribution="exact" together with choices; a select scores whole texts, drop it'
    if name is None or (name == "dtype" and params.dtype != "bool"):
        which = f"dtype={params.dtype}" if name else "a gen without a constraint"
        return f'distribution="exact" needs few possible texts, {which} has too many; drop it'
    changed = [n for n in _NOT_EXACT if getattr(params, n) != getattr(_PLAIN, n)]
    if changed:
        return (
            f'distribution="exact" together with {", ".join(changed)}, which change or tell the '
            "probabilities of single tokens; drop one of them"
        )
    return None


# What has no meaning where whole texts are weighed by the model's probabilities.
_NOT_EXACT = (
    "min_tokens",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "logit_bias",
    "ignore_eos",
    "logprobs",
    "top_logprobs",
)
_PLAIN = SamplingParams()

RULES: dict[str, Callable[[str, Any], Any]] = {
    "max_tokens": _integer(0),
    "min_tokens": _integer(0),
    "n": _integer(1, MAX_SAMPLES),
    "stop": _strings,
    "stop_token_ids": _token_ids,
    "stop_regex": _stop_regex,
    "temperature": _number(0, math.inf),
    "top_p": _number(0, 1, open_low=True),
    "top_k": _integer(-1),
    "min_p": _number(0, 1),
    "frequency_penalty": _number(-2, 2),
    "presence_penalty": _number(-2, 2),
    "repetition_penalty": _number(0, math.inf, open_low=True),
    "logit_bias": _logit_bias,
    "ignore_eos": _boolean,
    "seed": _integer(0, _MAX_SEED),
    "logprobs": _boolean,
    "top_logprobs": _integer(0),
    "regex": _pattern("a regular expression"),
    "json_schema": _json_schema,
    "json_style": _one_of(JSON_STYLES),
    "grammar": _pattern("a grammar"),
    "choices": _choices,
    "method": _one_of(CHOICE_METHODS),
    "distribution": _one_of(DISTRIBUTIONS),
    "dtype": _dtype,
    "heal": _boolean,
}
