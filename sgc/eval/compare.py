"""Tells two reports apart: scores of the same rows, other figures, and what conditions differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sgc.eval.paired import paired
from sgc.eval.saved import SavedReport

SIGNIFICANT = 0.05
FIGURES = (  # of a suite, that stand side by side
    "rows",
    "failed",
    "programs_per_s",
    "tokens_per_s",
    "latency_p50_s",
    "latency_p99_s",
    "hit_rate",
    "optimal_hit_rate",
    "prompt_tokens",
    "cached_tokens",
    "computed_tokens",
    "model_calls",
    "completion_tokens",
    "forced_tokens",
    "peak_kv_tokens",
)
_ALWAYS_OTHER = ("command", "date")  # what of the command matters has a name of its own


def compare(first: SavedReport, second: SavedReport) -> dict[str, Any]:
    """What differs from the first report to the second, as JSON data.

    `suites` holds, for each suite of both, `score` (the paired difference of rows that both have,
    see `sgc.eval.paired.Paired`, or None), `why_not` (why that is None), `unpaired` (how many
    scored rows each has alone) and `figures` (`[name, first, second]`). `conditions` lists those
    that differ. Raises CommandError for a file that is broken.
    """
    both = [name for name in first.suites if name in second.suites]
    return {
        "first": str(first.folder),
        "second": str(second.folder),
        "suites": {name: _suite(name, first, second) for name in both},
        "only_first": [name for name in first.suites if name not in both],
        "only_second": [name for name in second.suites if name not in both],
        "conditions": different_conditions(first.conditions, second.conditions),
    }


def _suite(name: str, first: SavedReport, second: SavedReport) -> dict[str, Any]:
    a, b = first.suites[name], second.suites[name]
    metrics = [found.get("metric") for found in (a, b)]
    result = {
        "metric": metrics[1],
        "score": None,
        "why_not": "",
        "unpaired": [0, 0],
        "figures": [[field, a.get(field), b.get(field)] for field in FIGURES],
    }
    if a.get("accuracy") is None or b.get("accuracy") is None:
        return result | {"why_not": "it has no score"}
    if metrics[0] != metrics[1]:
        return result | {"why_not": f"the scores are not of one kind ({metrics[0]}, {metrics[1]})"}
    return result | _scores(first, second, name)


def _scores(first: SavedReport, second: SavedReport, name: str) -> dict[str, Any]:
    scores = [report.scores(name) for report in (first, second)]
    for report, found in zip((first, second), scores, strict=True):
        if found is None:
            return {"why_not": f"{report.folder} keeps no scores of its rows"}
    a, b = ({row: v for row, v in (found or {}).items() if v is not None} for found in scores)
    shared = [row for row in a if row in b]
    unpaired = [len(a) - len(shared), len(b) - len(shared)]
    if not shared:
        return {"why_not": "they have no row in common", "unpaired": unpaired}
    difference = paired([a[row] for row in shared], [b[row] for row in shared])
    return {"score": asdict(difference), "unpaired": unpaired}


def different_conditions(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Conditions that are not equal, `name` with a dot for each level, `first` and `second`; date
    and command aside."""
    a, b = _flat(first), _flat(second)
    names = [name for name in dict.fromkeys((*a, *b)) if name not in _ALWAYS_OTHER]
    return [
        {"name": name, "first": a.get(name), "second": b.get(name)}
        for name in names
        if a.get(name) != b.get(name)
    ]


def _flat(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= (
            _flat(value, f"{above}{name}.") if isinstance(value, dict) else {above + name: value}
        )
    return found
