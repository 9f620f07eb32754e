"""Prices of API models, from a file of the user's."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sgc.cli.failure import CommandError
from sgc_ir.analysis.forecast import Case

_FORM = 'write for example: ["model"] input = 0.15, cached_input = 0.075, output = 0.6'
_FIELDS = ("input", "cached_input", "output")


@dataclass(frozen=True, slots=True)
class Price:
    """Money for a million tokens, in the file's currency."""

    input: float
    cached_input: float
    output: float

    def cost(self, case: Case) -> float:
        """Of a run in which the best hit rate is reached."""
        cached = case.prompt_tokens - case.computed_tokens
        paid = case.computed_tokens * self.input + cached * self.cached_input
        return (paid + case.output_tokens * self.output) / 1e6


def read_prices(path: Path) -> dict[str, Price]:
    """Model -> price of a TOML file: a table a model, with `input`, `output` and, where the
    service has one, `cached_input`. Raises CommandError."""
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"--prices {path}: {error}", _FORM) from error
    return {name: _price(path, name, table) for name, table in tables.items()}


def _price(path: Path, name: str, table: Any) -> Price:
    if not isinstance(table, Mapping):
        raise CommandError(f"--prices {path}: {name} is no table", _FORM)
    unknown = sorted(set(table) - set(_FIELDS))
    if unknown:
        raise CommandError(f"--prices {path}: {name}: unknown field {unknown[0]}", _FORM)
    for key in ("input", "output"):
        if key not in table:
            raise CommandError(f"--prices {path}: {name} has no {key}", _FORM)
    for key, value in table.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
            raise CommandError(f"--prices {path}: {name}: {key} is no price: {value!r}", _FORM)
    cached = table.get("cached_input", table["input"])
    return Price(float(table["input"]), float(cached), float(table["output"]))
