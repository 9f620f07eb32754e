"""Values given on the command line: `--bind NAME=JSON` and `--arg NAME=VALUE`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sgc.cli.failure import CommandError
from sgc_ir.graph import Param
from sgc_ir.json_text import read_json
from sgc_ir.types import convert_text


def parse_bindings(given: Iterable[str]) -> dict[str, Any]:
    """Name -> value of `--bind NAME=JSON` options. Raises CommandError."""
    return _pairs("--bind", given, lambda name, text: _json(text))


def parse_arguments(given: Iterable[str], params: Sequence[Param]) -> dict[str, Any]:
    """Name -> value of `--arg NAME=VALUE` options, converted by annotation. Raises CommandError."""
    return _pairs("--arg", given, cell_converter(params))


def cell_converter(params: Sequence[Param]) -> Callable[[str, str], Any]:
    """`(name, text) -> value` by the parameters' annotations; raises ValueError."""
    types = {param.name: param.annotation for param in params}

    def convert(name: str, text: str) -> Any:
        try:
            return convert_text(text, types.get(name, ""))
        except ValueError as error:
            raise ValueError(f"argument {name}: {error}") from None

    return convert


def _pairs(option: str, given: Iterable[str], convert: Callable[[str, str], Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for pair in given:
        name, equals, text = pair.partition("=")
        if not equals or not name.isidentifier():
            raise CommandError(f"{option} {pair!r} is not NAME=VALUE", "write for example n=3")
        if name in values:
            raise CommandError(f"{option} {name} is given twice", "drop one")
        try:
            values[name] = convert(name, text)
        except ValueError as error:
            raise CommandError(f"{option} {pair!r}: {error}", "give a value of that type") from None
    return values


def _json(text: str) -> Any:
    try:
        return read_json(text)
    except json.JSONDecodeError:
        raise ValueError("not JSON (a text needs quotes: NAME='\"text\"')") from None
