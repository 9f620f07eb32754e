"""Prices of API models, from a file of the user's."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sgc.cli.failure import CommandError
from sgc_ir.analysis.forecast import Case, Forecast

_FORM = 'write for example: ["model"] input = 0.15, cached_input = 0.075, output = 0.6'
_FIELDS = ("input", "cached_input", "output")


@dataclass(frozen=True, slots=True)
class Price:
    """Money for a million tokens, in the file's currency."""

    input: float
    cached_input: float
    output: float

    def cost(self, computed: int, cached: int, output: int) -> float:
        """Of prompt tokens that are computed, those that a cache holds, and output tokens."""
        return (computed * self.input + cached * self.cached_input + output * self.output) / 1e6

    def of_case(self, case: Case) -> float:
        """Of a run in which the best hit rate is reached."""
        cached = case.prompt_tokens - case.computed_tokens
        return self.cost(case.computed_tokens, cached, case.output_tokens)


def add_money(result: dict[str, Any], found: Forecast, prices: Mapping[str, Price]) -> None:
    """Write into the result of `sgc explain` the `money` of the run and of each node, by model:
    `[low, high]`, for a node `high` null where there is no bound."""
    result["money"] = {
        name: [price.of_case(found.least), price.of_case(found.most)]
        for name, price in prices.items()
    }
    for node in result["nodes"] if prices else ():
        node["money"] = {name: _node_money(node, price) for name, price in prices.items()}


def _node_money(node: Mapping[str, Any], price: Price) -> list[float | None]:
    ends = [
        None if None in tokens else price.cost(tokens[0] - tokens[1], *tokens[1:])
        for tokens in zip(
            node["prompt_tokens"], node["cached_tokens"], node["output_tokens"], strict=True
        )
    ]
    low, high = ends
    if low is None or high is None:
        return [low, None]
    return [min(low, high), max(low, high)]


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
