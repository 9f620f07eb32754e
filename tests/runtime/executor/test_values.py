"""What `json_schema` makes of a text: Python's own reading, but for numbers that are none."""

from __future__ import annotations

import json

import pytest

from sgc_ir.errors import BackendError
from sgc_ir.params import CallResult, SamplingParams
from sgc_runtime.executor.values import value_of

_PARAMS = SamplingParams(json_schema={"type": "object"})


@pytest.mark.parametrize(
    "text",
    ['{"z": 1, "z": "x"}', '{"a": [{"z": 1, "z": {}}], "a": {"z": 2, "z": 3}}', '{"z": 1e5}'],
)
def test_of_members_with_one_name_the_last_is_taken(text: str) -> None:
    assert value_of(_PARAMS, CallResult(text)) == json.loads(text)


@pytest.mark.parametrize("text", ['{"z": 1e999}', '{"z": NaN}', '{"z": '])
def test_what_is_no_json_fails(text: str) -> None:
    with pytest.raises(BackendError, match="json_schema"):
        value_of(_PARAMS, CallResult(text))
