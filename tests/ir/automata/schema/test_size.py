"""Schemas that share parts: written out they may be larger than any memory."""

from __future__ import annotations

from typing import Any

import pytest

from sgc_ir.automata.schema.compile import schema_automaton, schema_digest
from sgc_ir.automata.schema.size import MAX_PARTS, check_size
from sgc_ir.automata.schema.source import schema_source
from sgc_ir.errors import ConstraintError


def _shared(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(levels):
        schema = {"properties": {"left": schema, "right": schema}}
    return schema


def _circular() -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array"}
    schema["items"] = schema
    return schema


@pytest.mark.parametrize("schema", [_shared(60), _circular(), {"const": ["x" * 16_000] * 2_000}])
@pytest.mark.parametrize("read", [schema_source, schema_automaton, lambda s: schema_digest(s, "")])
def test_what_is_too_large_is_refused(schema: Any, read: Any) -> None:
    with pytest.raises(ConstraintError) as caught:
        read(schema)
    assert (caught.value.kind, caught.value.where) == ("limit", "#")


def test_a_part_may_stand_in_several_places() -> None:
    assert schema_source(_shared(8)) == _shared(8)
    assert schema_automaton(_shared(8)).num_states > 0


def test_every_value_and_name_counts() -> None:
    check_size({"enum": [0] * (MAX_PARTS - 3)})
    with pytest.raises(ConstraintError):
        check_size({"enum": [0] * (MAX_PARTS - 2)})
