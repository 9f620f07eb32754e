"""Command-line options that are made from the fields of a settings dataclass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from functools import partial
from typing import Any, get_args, get_origin, get_type_hints

import click

from sgc_runtime.executor.policy import EVERY

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def options_of(settings: type) -> Decorator:
    """A decorator that adds one option a field of the dataclass `settings`, in order.

    `metadata` of a field gives `help` and `metavar`. Options that are not given arrive as None,
    so that the dataclass stays the one place of defaults.
    """
    hints = get_type_hints(settings)
    made = [_option(f, hints[f.name]) for f in fields(settings)]

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(made):
            function = option(function)
        return function

    return decorate


def given(settings: type, values: dict[str, Any]) -> dict[str, Any]:
    """Take the options of `settings` out of `values`; those that were not given are left out."""
    taken = {f.name: values.pop(f.name) for f in fields(settings)}
    return {name: value for name, value in taken.items() if value is not None and value != ()}


def _option(field: Field[Any], hint: Any) -> Decorator:
    flag = field.name.replace("_", "-")
    text = str(field.metadata["help"])
    text = text[:1].upper() + text[1:]
    shared: dict[str, Any] = {"default": None, "help": text + _default_text(field)}
    if hint is bool:
        value = not field.default  # the flag says what is not the case without it
        names = (field.name, f"--{flag}" if value else f"--no-{flag}")
        return click.option(*names, is_flag=True, flag_value=value, type=bool, **shared)
    if hint == bool | None:  # whether it holds is decided elsewhere, unless one of both is given
        return click.option(f"--{flag}/--no-{flag}", field.name, type=bool, **shared)
    flag = f"--{flag}"
    shared["metavar"] = field.metadata.get("metavar") or None
    per_node = field.metadata.get("per_node")
    if per_node is not None:
        callback = partial(_per_node, kind=per_node)
        return click.option(flag, multiple=True, callback=callback, **shared)
    if get_origin(hint) is tuple:
        return click.option(flag, multiple=True, type=get_args(hint)[0], **shared)
    choices = _literals(hint)
    if choices:
        return click.option(flag, type=click.Choice(choices), **{**shared, "metavar": None})
    plain = next((a for a in get_args(hint) if a is not type(None)), hint)
    return click.option(flag, type=plain, **shared)


def _per_node(
    context: click.Context, option: click.Parameter, texts: tuple[str, ...], kind: type
) -> dict[str, Any] | None:
    """Values by variable or tool name; what is given without a name is for all others."""
    values: dict[str, Any] = {}
    for text in texts:
        name, found, number = text.rpartition("=")
        name = name if found else EVERY
        if not name or name in values:
            raise click.BadParameter(f"{text!r}: {'there is no name' if not name else 'twice'}")
        try:
            values[name] = kind(number)
        except ValueError:
            raise click.BadParameter(f"{text!r}; give {option.metavar}") from None
    return values or None


def _literals(hint: Any) -> list[str]:
    """The texts of a Literal, also inside a union."""
    found = []
    for arg in get_args(hint):
        found += [arg] if isinstance(arg, str) else _literals(arg)
    return found


def _default_text(field: Field[Any]) -> str:
    default = field.default
    if default is MISSING or default is None or isinstance(default, bool) or default in ((), ""):
        return "."
    return f" (default {field.default})."
