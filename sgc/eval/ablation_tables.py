"""The tables of ablations, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sgc.eval.tables import number, percent, piped
from sgc.eval.variants import FULL

Figures = Mapping[str, Any]
Tables = Mapping[str, Mapping[str, Figures]]  # by suite and variant


def markdown(found: Mapping[str, Any]) -> list[str]:
    """The lines of all tables of `ablate`'s figures."""
    suites: Tables = found["suites"]
    parts = ["## Ablations", ""]
    if len(found["variants"]) > 1:
        parts += [*_relative(found), "", *_notes(found), "", *_costs(suites), ""]
    parts += ["### Hit rate and the optimum", "", *_optimum(suites), ""]
    for name, points in found["hit_rate"].items():
        parts += [f"### {name}: part of the matches disabled", "", *_sweep(points), ""]
    return parts


def _relative(found: Mapping[str, Any]) -> list[str]:
    """Throughput of each variant in each suite, relative to the whole system."""
    suites: Tables = found["suites"]
    rows = []
    for name, facts in found["variants"].items():
        if name == FULL:
            speeds = [number(table[name]["programs_per_s"], 2) for table in suites.values()]
            rows.append([facts["title"], *(f"{speed}/s" for speed in speeds), "1"])
            continue
        ratios = [_ratio(table[name]) for table in suites.values()]
        rows.append([f"{name}: {facts['title']}", *ratios, f"{found['mean'][name]:.2f}"])
    return piped([["programs/s relative to the whole", *suites, "geometric mean"], *rows])


def _notes(found: Mapping[str, Any]) -> list[str]:
    count = found["repetitions"]
    lines = [f"Medians of {count} interleaved runs each; in brackets the least and the largest."]
    suites: Tables = found["suites"]
    differing = [
        f"{name} {suite} {figures['rows_that_differ']}"
        for suite, table in suites.items()
        for name, figures in table.items()
        if figures["rows_that_differ"]
    ]
    if differing:
        lines.append(
            "Rows whose outputs differ from the whole system's, by rounding where the model is not "
            f"in float32: {', '.join(differing)}."
        )
    return lines


def _costs(suites: Tables) -> list[str]:
    rows = []
    for suite, table in suites.items():
        for name, f in table.items():
            rows.append([suite, name, *_cost_cells(f)])
    return piped([["suite", "variant", *_COSTS], *rows])


_COSTS = ("hit rate", "computed tokens", "passes", "batch", "p50, s", "p99, s", "peak KV tokens")


def _cost_cells(f: Figures) -> list[str]:
    passes = None if f["decode_steps"] is None else f["prefill_steps"] + f["decode_steps"]
    return [
        percent(f["hit_rate"]),
        number(f["computed_tokens"]),
        number(passes),
        number(f["mean_running"], 1),
        number(f["latency_p50_s"], 2),
        number(f["latency_p99_s"], 2),
        number(f["peak_kv_tokens"]),
    ]


def _optimum(suites: Tables) -> list[str]:
    rows = []
    for suite, table in suites.items():
        actual, best = table[FULL]["hit_rate"], table[FULL]["optimal_hit_rate"]
        share = actual / best if actual is not None and best else None
        rows.append([suite, percent(actual), percent(best), percent(share)])
    return piped([["suite", "hit rate", "optimum", "share of it"], *rows])


def _sweep(points: Sequence[Figures]) -> list[str]:
    rows = [
        [
            f"{100 * p['match_share']:.0f} %",
            percent(p["hit_rate"]),
            number(p["programs_per_s"], 2),
            _ratio(p),
            number(p["latency_mean_s"], 2),
            number(p["mean_running"], 1),
        ]
        for p in points
    ]
    head = [
        "calls that may match",
        "hit rate",
        "programs/s",
        "relative",
        "mean latency, s",
        "batch",
    ]
    return piped([head, *rows])


def _ratio(f: Figures) -> str:
    low, high = f["relative_range"]
    return f"{f['relative']:.2f} ({low:.2f} to {high:.2f})"
