"""Command-line options that are made from the fields of a settings dataclass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, fields
from typing import Any, get_args, get_origin, get_type_hints

import click

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


def given(names: Iterable[str], values: dict[str, Any]) -> dict[str, Any]:
    """Take the named options out of `values`; those that were not given are left out."""
    taken = {name: values.pop(name) for name in names}
    return {name: value for name, value in taken.items() if value is not None and value != ()}


def _option(field: Field[Any], hint: Any) -> Decorator:
    flag = "--" + field.name.replace("_", "-")
    text = str(field.metadata["help"])
    shared: dict[str, Any] = {"default": None, "help": text + _default_text(field)}
    if hint is bool:
        return click.option(flag, is_flag=True, flag_value=True, type=bool, **shared)
    shared["metavar"] = field.metadata.get("metavar") or None
    if get_origin(hint) is tuple:
        return click.option(flag, multiple=True, type=get_args(hint)[0], **shared)
    choices = [a for a in get_args(hint) if isinstance(a, str)]
    if choices:
        return click.option(flag, type=click.Choice(choices), **{**shared, "metavar": None})
    plain = next((a for a in get_args(hint) if a is not type(None)), hint)
    return click.option(flag, type=plain, **shared)


def _default_text(field: Field[Any]) -> str:
    if field.default is MISSING or field.default in (None, False, (), ""):
        return "."
    return f" (default {field.default})."
