"""The difference of two reports, as text for a terminal or as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sgc.eval.compare import SIGNIFICANT
from sgc.eval.tables import Rows, aligned, percent, piped

_SHARES = ("hit_rate", "optimal_hit_rate")
_NOTE = (
    "p-values are of each suite alone: of 20 equal suites one is below 0.05 by chance. Times and "
    "rates come from one run each and carry no significance."
)


def comparison_text(result: Mapping[str, Any], markdown: bool = False) -> str:
    """What `sgc.eval.compare.compare` found, in words and tables."""
    table = piped if markdown else aligned
    head = "# " if markdown else ""
    parts = [f"{head}A: {result['first']}, B: {result['second']}", ""]
    suites: Mapping[str, Any] = result["suites"]
    if suites:
        parts += [*table(_score_rows(suites)), "", *_remarks(suites), _NOTE, ""]
    for name, suite in suites.items():
        parts += [*table(_figure_rows(name, suite)), ""]
    for which in ("first", "second"):
        if alone := result[f"only_{which}"]:
            parts.append(f"Only {'A' if which == 'first' else 'B'} has {', '.join(alone)}.")
    if not suites:
        parts.append("They have no suite in common.")
    parts += _conditions(result["conditions"], table)
    return "\n".join(parts).rstrip() + "\n"


def _score_rows(suites: Mapping[str, Any]) -> Rows:
    rows = [["suite", "A", "B", "B - A, points (95 %)", "p", "rows", "better", "worse"]]
    for name, suite in suites.items():
        score = suite["score"]
        if score is None:
            rows.append([name, *["-"] * 7])
            continue
        low, high = score["interval"]
        mark = " *" if score["p_value"] < SIGNIFICANT else ""
        difference = f"{100 * score['difference']:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"
        means = [percent(score["first"]), percent(score["second"])]
        counts = [f"{score[field]:,}" for field in ("rows", "better", "worse")]
        rows.append([name, *means, difference, p_text(score["p_value"]) + mark, *counts])
    return rows


def _remarks(suites: Mapping[str, Any]) -> list[str]:
    lines = []
    if any(s["score"] and s["score"]["p_value"] < SIGNIFICANT for s in suites.values()):
        lines.append("Marked *: differs by more than chance (p < 0.05).")
    methods = {s["score"]["method"] for s in suites.values() if s["score"]}
    if methods:
        lines.append(f"Pairs of rows by id; p-values: {', '.join(sorted(methods))}.")
    for name, suite in suites.items():
        if suite["why_not"]:
            lines.append(f"{name}: not compared, {suite['why_not']}.")
        if any(suite["unpaired"]):
            a, b = suite["unpaired"]
            lines.append(f"{name}: {a:,} scored rows are in A alone, {b:,} in B alone.")
    return lines


def _figure_rows(name: str, suite: Mapping[str, Any]) -> Rows:
    rows = [[name, "A", "B", "B / A"]]
    for field, first, second in suite["figures"]:
        if first is None and second is None:
            continue
        shown = [_figure(field, value) for value in (first, second)]
        rows.append([field.replace("_", " "), *shown, _ratio(field, first, second)])
    return rows


def _figure(field: str, value: float | None) -> str:
    if value is None:
        return "-"
    if field in _SHARES:
        return percent(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def _ratio(field: str, first: float | None, second: float | None) -> str:
    if first is None or second is None:
        return "-"
    if field in _SHARES:
        return f"{100 * (second - first):+.1f} points"
    if not first:
        return "1.00" if not second else "-"
    return f"{second / first:.2f}"


def _conditions(different: Sequence[Mapping[str, Any]], table: Any) -> list[str]:
    if not different:
        return ["Conditions: the same, date and command aside."]
    rows = [["condition that differs", "A", "B"]]
    rows += [[c["name"], _plain(c["first"]), _plain(c["second"])] for c in different]
    return list(table(rows))


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "-" if value is None else " ".join(str(value).split())


def p_text(value: float) -> str:
    """A p-value with as many digits as tell something."""
    if value < 0.0001:
        return "< 0.0001"
    return f"{value:.4f}" if value < 0.01 else f"{value:.2f}"
