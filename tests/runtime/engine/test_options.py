"""Options of an engine that have no meaning are refused in one line."""

from __future__ import annotations

from typing import Any

import pytest

from sgc_ir.errors import BackendError
from sgc_runtime.engine.options import EngineOptions, parse_size


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_graph_tokens", None),
        ("max_graph_tokens", True),
        ("max_graph_tokens", 0),
        ("kv_tokens", True),
        ("kv_tokens", 1.5),
        ("mixed_tokens", -1),
        ("kv_memory", -1),
        ("kv_memory", True),
        ("graph_memory", -5),
        ("graph_memory", "-1GB"),
        ("graph_memory", 1.5),
        ("memory_share", None),
        ("memory_share", True),
        ("memory_share", float("nan")),
        ("reserve", None),
        ("claims", 2),
    ],
)
def test_values_without_meaning(name: str, value: Any) -> None:
    with pytest.raises(BackendError, match="give a") as caught:
        EngineOptions(**{name: value})
    assert str(caught.value).startswith(f"{name}={value!r}: ")
    assert "\n" not in str(caught.value)


def test_what_is_derived_may_be_left_out() -> None:
    names = ("kv_tokens", "kv_memory", "graph_memory", "max_running", "prefill_tokens", "claims")
    for name in (*names, "mixed_tokens", "dtype", "overlap"):
        assert getattr(EngineOptions(**{name: None}), name) is None


def test_sizes() -> None:
    assert [parse_size(size) for size in (0, 7, "2kB", "0.5 MiB")] == [0, 7, 2048, 1 << 19]
