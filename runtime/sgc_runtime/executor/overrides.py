"""A gen's parameters over the run's defaults, checked once for each set of values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from sgc_ir.params import SamplingParams

_PLAIN = (str, int, float, bool, type(None))


def overridden(defaults: SamplingParams, values: Mapping[str, Any]) -> SamplingParams:
    """`defaults.override(values)`; remembered where the values are plain.

    Raises ValueError or TypeError for a wrong value.
    """
    if all(map(_is_plain, values.values())) and _is_plain_record(defaults):
        return _remembered(defaults, tuple(values), *values.values())
    return defaults.override(values)


def _is_plain(value: Any) -> bool:
    kind = type(value)
    return kind in _PLAIN or (kind is tuple and all(type(item) is str for item in value))


def _is_plain_record(defaults: SamplingParams) -> bool:
    return defaults.logit_bias is None and not isinstance(defaults.json_schema, dict | list)


@lru_cache(maxsize=256, typed=True)  # typed: 1, 1.0 and True are not the same parameter
def _remembered(defaults: SamplingParams, names: tuple[str, ...], *values: Any) -> SamplingParams:
    return defaults.override(dict(zip(names, values, strict=True)))
