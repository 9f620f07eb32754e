"""The figures of a suite: scores of its rows, and what running them took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from sgc.cli.tally import latency_figures
from sgc.eval.folder import SuiteFolder, read_lines, read_object
from sgc.eval.intervals import interval
from sgc.eval.suite import Row, Score, Suite

_LAST_RUN = ("optimal_hit_rate", "recomputed_tokens", "peak_running", "load_seconds")


def score_rows(suite: Suite, rows: Sequence[Row], folder: SuiteFolder) -> list[dict[str, Any]]:
    """A record for each row: `id, group, score, detail, error`.

    A row that failed has the score 0, since it gave no answer; a broken one, which was never
    asked, has none.
    """
    outputs = read_lines(folder.outputs)
    return [_scored(suite, row, None if row.problem else next(outputs)) for row in rows]


def _scored(suite: Suite, row: Row, output: Mapping[str, Any] | None) -> dict[str, Any]:
    error = row.problem if output is None else (output["error"] or {}).get("message")
    score = None
    if output is not None and suite.score is not None:
        score = Score(0.0) if error else suite.score(row, output)
    return {
        "id": row.id,
        "group": row.group,
        "score": None if score is None else score.value,
        "detail": {} if score is None else dict(score.detail),
        "error": error or None,
    }


def figures_of(
    suite: Suite, scored: Sequence[Mapping[str, Any]], folder: SuiteFolder, seed: int
) -> dict[str, Any]:
    """All figures of a suite, for the report."""
    return {
        "title": suite.title,
        "metric": suite.metric,
        **_accuracy(scored, seed),
        "rows": len(scored),
        "failed": sum(1 for row in scored if row["error"]),
        **_costs(folder),
        "groups": _groups(scored, seed),
        "notes": suite.notes,
    }


def _accuracy(scored: Iterable[Mapping[str, Any]], seed: int) -> dict[str, Any]:
    rows = [row for row in scored if row["score"] is not None]
    if not rows:
        return {"accuracy": None, "interval": None, "scored_rows": 0}
    values = [row["score"] for row in rows]
    means = {
        name: fmean(float(row["detail"].get(name, 0)) for row in rows)
        for name in dict.fromkeys(name for row in rows for name in _numbers(row["detail"]))
    }
    found: dict[str, Any] = {"accuracy": fmean(values), "interval": list(interval(values, seed))}
    return found | {"scored_rows": len(rows)} | ({"means": means} if means else {})


def _numbers(detail: Mapping[str, Any]) -> list[str]:
    return [name for name, value in detail.items() if isinstance(value, int | float)]


def _groups(scored: Sequence[Mapping[str, Any]], seed: int) -> dict[str, Any]:
    members = defaultdict(list)
    for row in scored:
        members[row["group"]].append(row)
    if set(members) == {""}:
        return {}
    return {name: {"rows": len(rows), **_accuracy(rows, seed)} for name, rows in members.items()}


def _costs(folder: SuiteFolder) -> dict[str, Any]:
    # Of all runs of a resumed evaluation: each has its lines behind a line of its own.
    lines, stats = list(read_lines(folder.times)), read_object(folder.stats)
    usages = [record["usage"] for record in read_lines(folder.outputs)]
    seconds = max(sum(_runs(lines, "end_s")), 1e-9)
    asked, cached = (_sum(lines, name) for name in ("prompt_tokens", "cached_tokens"))
    prompt, made = (_sum(usages, name) for name in ("prompt_tokens", "completion_tokens"))
    last = {line["index"]: line["end_s"] - line["begin_s"] for line in lines if "index" in line}
    peaks = [stats.get("peak_kv_tokens"), *(line.get("peak_kv_tokens") for line in lines)]
    return {
        "programs_per_s": len(last) / seconds,
        "tokens_per_s": (prompt + made) / seconds,
        **latency_figures(list(last.values())),
        "hit_rate": cached / asked if asked else None,
        "prompt_tokens": prompt,
        "cached_tokens": cached,
        "computed_tokens": asked - cached,
        "model_calls": int(sum(_runs(lines, "calls"))),
        "completion_tokens": made,
        "forced_tokens": _sum(usages, "forced_tokens"),
        "scored_tokens": _sum(lines, "scored_tokens"),
        "peak_kv_tokens": max((peak for peak in peaks if peak is not None), default=None),
        "seconds": seconds,
        **{name: stats.get(name) for name in _LAST_RUN},
    }


def _sum(lines: Iterable[Mapping[str, Any]], name: str) -> int:
    return sum(line.get(name, 0) for line in lines)


def _runs(lines: Iterable[Mapping[str, Any]], name: str) -> list[float]:
    """The largest value of each run, from its lines."""
    found: list[float] = []
    for line in lines:
        if "run" in line:
            found.append(0.0)
        else:
            found[-1] = max(found[-1], line[name])
    return found


def samples_of(
    rows: Sequence[Row], scored: Sequence[Mapping[str, Any]], folder: SuiteFolder
) -> Iterable[dict[str, Any]]:
    """What was asked and answered in each row: all texts of its program, and its score."""
    outputs = read_lines(folder.outputs)
    for row, score in zip(rows, scored, strict=True):
        output = {} if row.problem else next(outputs)
        shown = {name: output.get(name) for name in ("text", "messages", "vars", "value")}
        yield {**score, "expected": row.expected, "arguments": row.arguments, **shown}
