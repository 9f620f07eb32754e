"""Reports as `sgc eval` writes them, with figures made up for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

FIGURES: dict[str, Any] = {
    "title": "HellaSwag",
    "metric": "picked ending",
    "accuracy": 0.5,
    "interval": [0.4, 0.6],
    "rows": 100,
    "failed": 0,
    "scored_rows": 100,
    "programs_per_s": 8.0,
    "tokens_per_s": 4000.0,
    "latency_p50_s": 0.5,
    "latency_p99_s": 2.25,
    "hit_rate": 0.9,
    "optimal_hit_rate": 0.95,
    "prompt_tokens": 50000,
    "cached_tokens": 45000,
    "computed_tokens": 5000,
    "model_calls": 100,
    "completion_tokens": 400,
    "forced_tokens": 0,
    "peak_kv_tokens": 9000,
    "groups": {},
    "notes": "",
}
CONDITIONS: dict[str, Any] = {
    "command": ["sgc", "eval", "hellaswag"],
    "date": "2026-01-01T00:00:00Z",
    "commit": "a" * 40,
    "model": "smollm2-135m",
    "model_sha256": "0" * 64,
    "data": "DATA",
    "seed": 0,
    "flags": {"limit": 100, "shots": None, "kv_tokens": 65536},
    "packages": {"torch": "2.13.0"},
    "hardware": {"cpu": "A processor", "cores": 2},
}
_POINT: dict[str, Any] = {
    "programs_per_s": 8.0,
    "latency_p50_s": 0.5,
    "latency_p99_s": 2.0,
    "latency_mean_s": 0.75,
    "hit_rate": 0.9,
    "optimal_hit_rate": 0.95,
    "computed_tokens": 5000,
    "prefill_steps": 10,
    "decode_steps": 90,
    "mean_running": 12.0,
    "peak_kv_tokens": 9000,
    "relative": 1.0,
    "relative_range": [1.0, 1.0],
    "rows_that_differ": 0,
}
_SLOW = {**_POINT, "programs_per_s": 3.0, "hit_rate": 0.0, "relative": 0.4}
ABLATIONS: dict[str, Any] = {
    "repetitions": 3,
    "variants": {"full": {"title": "the whole"}, "no-cache": {"title": "no KV is kept"}},
    "suites": {"hellaswag": {"full": _POINT, "no-cache": _SLOW}},
    "hit_rate": {
        "hellaswag": [{"match_share": 0.0, **_SLOW}, {"match_share": 1.0, **_POINT}],
    },
    "mean": {"full": 1.0, "no-cache": 0.4},
}


def report(
    suites: Mapping[str, Mapping[str, Any]], conditions: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A report whose suites have `FIGURES`, except for what is given."""
    return {
        "suites": {name: {**FIGURES, **figures} for name, figures in suites.items()},
        "conditions": {**CONDITIONS, **(conditions or {})},
    }


def save(
    folder: Path,
    made: Mapping[str, Any],
    scores: Mapping[str, Sequence[float | None]] | None = None,
) -> Path:
    """Write a report, and the scores of its suites' rows `r0`, `r1` ..; gives the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(json.dumps(made))
    for suite, values in (scores or {}).items():
        (folder / suite).mkdir(exist_ok=True)
        rows = ({"id": f"r{n}", "group": "", "score": v} for n, v in enumerate(values))
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / suite / "scores.jsonl").write_text(lines)
    return folder
