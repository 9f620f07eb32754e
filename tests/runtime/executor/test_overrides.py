"""Parameters over defaults: remembered ones equal fresh ones."""

from __future__ import annotations

from typing import Any

import pytest

from sgc_ir.params import SamplingParams
from sgc_runtime.executor.overrides import overridden

VALUES: list[dict[str, Any]] = [
    {},
    {"max_tokens": 5},
    {"max_tokens": 5, "stop": ("\n", "x")},
    {"stop": ("\n", "x"), "max_tokens": 5},
    {"temperature": 1, "n": 2},
    {"temperature": None, "top_k": 3},
    {"logit_bias": {"1": 2.0}},
    {"stop_token_ids": (1, 2)},
    {"json_schema": {"type": "object"}},
]
DEFAULTS = [
    SamplingParams(),
    SamplingParams().override({"temperature": 0.5}),
    SamplingParams().override({"logit_bias": {"3": 1.0}}),
    SamplingParams().override({"json_schema": {"type": "array"}}),
]


@pytest.mark.parametrize("defaults", DEFAULTS)
def test_equals_a_fresh_override_each_time(defaults: SamplingParams) -> None:
    for _ in range(2):
        for values in VALUES:
            found, fresh = overridden(defaults, values), defaults.override(values)
            assert found == fresh
            assert repr(found) == repr(fresh)


def test_values_that_are_equal_but_of_another_type_are_checked_anew() -> None:
    assert overridden(SamplingParams(), {"n": 1}).n == 1
    for wrong in ({"n": True}, {"n": 1.0}, {"heal": 1}, {"stop_token_ids": (True,)}):
        overridden(SamplingParams(), {"heal": True, "stop_token_ids": (1,)})
        with pytest.raises((ValueError, TypeError)):
            overridden(SamplingParams(), wrong)
