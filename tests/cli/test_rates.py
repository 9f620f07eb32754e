"""Expected time from the tokens a second of another run."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgc.cli.explained import compare, time_text
from sgc.cli.rates import Rates, add_time, measured, run_seconds

COUNTS = st.integers(1, 10**6)
SECONDS = st.floats(1e-3, 1e3)


def node(
    prompt: int, cached: int, output: int, prefill: float, decode: float, path: str = "g0"
) -> dict[str, Any]:
    named = {"program": "p", "node": path, "name": "x", "source": "p.py:3", "calls": 2}
    tokens = {"prompt_tokens": prompt, "cached_tokens": cached, "completion_tokens": output}
    times = {"waiting_seconds": 0.5, "prefill_seconds": prefill, "decode_seconds": decode}
    return named | tokens | times


def plan(stats: dict[str, Any], unit: str = "tokens", bounded: bool = True) -> dict[str, Any]:
    """What `sgc explain` would say of a run that goes as one did."""
    nodes = [
        {name: n[name] for name in ("program", "node", "name", "source")}
        | {name: [n[name], n[name]] for name in ("calls", "prompt_tokens", "cached_tokens")}
        | {"output_tokens": [n["completion_tokens"]] * 2}
        for n in stats["nodes"]
    ]
    case = {
        "computed_tokens": sum(n["prompt_tokens"] - n["cached_tokens"] for n in stats["nodes"]),
        "output_tokens": sum(n["completion_tokens"] for n in stats["nodes"]),
    }
    return {"unit": unit, "bounded": bounded, "least": case, "most": case, "nodes": nodes}


@settings(max_examples=50)
@given(
    st.lists(st.tuples(COUNTS, COUNTS, COUNTS, SECONDS, SECONDS), min_size=1, max_size=4), SECONDS
)
def test_a_run_that_goes_as_measured_takes_as_long(
    shapes: list[tuple[int, int, int, float, float]], seconds: float
) -> None:
    nodes = [
        node(computed + cached, cached, output, prefill, decode, f"g{i}")
        for i, (computed, cached, output, prefill, decode) in enumerate(shapes)
    ]
    stats = {"seconds": seconds, "nodes": nodes}
    result = plan(stats)
    add_time(result, measured(stats))
    assert result["time"]["seconds"] == pytest.approx([seconds, seconds])
    assert sum(n["seconds"][0] for n in result["nodes"]) == pytest.approx(seconds)
    shares = [run_seconds(stats, n) for n in nodes]
    assert sum(share or 0.0 for share in shares) == pytest.approx(seconds)
    ran = compare(result, stats)
    assert sum(n["run_seconds"] for n in ran) == pytest.approx(seconds)
    assert all(n["outside"] == [] for n in ran)


def test_by_hand() -> None:
    # Two calls side by side: 4 s of prefill and 12 s of decode in 8 s, so 2 s and 6 s of the run.
    stats = {"seconds": 8.0, "nodes": [node(300, 100, 60, 4.0, 12.0)]}
    rates = measured(stats)
    assert (rates.prompt, rates.output) == (100.0, 10.0)
    assert rates.seconds(50, 20) == 2.5
    result = plan(stats)
    add_time(result, rates)
    assert time_text(result["time"]) == "8 s, at 100 prompt and 10 output tokens a second"


def test_no_time_without_tokens_or_measured_seconds() -> None:
    stats = {"seconds": 8.0, "nodes": [node(300, 100, 60, 4.0, 12.0)]}
    result = plan(stats, unit="words")
    add_time(result, measured(stats))
    assert time_text(result["time"]) == "left out: time needs tokens: give --model M"
    untimed = {"seconds": 8.0, "nodes": [node(300, 100, 60, 0.0, 0.0)]}
    assert measured(untimed) == Rates(None, None)
    result = plan(untimed)
    add_time(result, measured(untimed))
    assert result["time"]["seconds"] is None
    assert "seconds" not in compare(result, untimed)[0]


def test_no_upper_end_without_bounds() -> None:
    stats = {"seconds": 8.0, "nodes": [node(300, 100, 60, 4.0, 12.0)]}
    result = plan(stats, bounded=False)
    add_time(result, measured(stats))
    assert result["time"]["seconds"] == [8.0, None]
    assert time_text(result["time"]).startswith("8 s or more, at")


def test_what_ran_is_found_by_pattern_and_line() -> None:
    """The run numbers calls behind a branch; the plan leaves the number open."""
    planned = plan({"nodes": [node(4, 0, 2, 1, 1, "g*"), node(4, 0, 2, 1, 1, "g0")]})
    planned["nodes"][0]["calls"] = [0, 2]
    third = node(4, 0, 2, 1, 1, "g7") | {"name": "other"}
    ran = [node(4, 0, 2, 1, 1, path) for path in ("g0", "g1", "g2")]
    lines = compare(planned, {"nodes": [*ran, third]})
    assert [line["calls"] for line in lines] == [4, 2, 2]
    assert lines[0]["outside"] == ["calls", "output_tokens", "prompt_tokens"]
    assert lines[1]["outside"] == []
    assert lines[2]["planned"] is None
    assert (lines[2]["program"], lines[2]["source"]) == ("p", "p.py:3")
