"""The figures of a whole run at the head of `sgc explain`'s page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sgc.cli.explained import memory_text, money_text, percent_text, range_text, time_text
from sgc.page.build import Figure


def figures(result: Mapping[str, Any], stats: Mapping[str, Any] | None) -> list[Figure]:
    """Planned figures, and beside them what the run of `stats` took."""
    total, unit = result["total"], result["unit"]
    open_end = "" if result["bounded"] else " or other"
    found = [
        _figure("rows", f"{result['rows']:,}", _ran(stats, "rows")),
        _figure("calls", range_text(total["calls"]), _calls(stats)),
        _figure(f"prompt {unit}", range_text(total["prompt_tokens"]), _ran(stats, "prompt_tokens")),
        _figure("shareable", f"{total['shareable_tokens']:,}"),
        _figure("best hit rate", percent_text(*total["hit_rate"]) + open_end, _hits(stats)),
        _figure(
            f"output {unit}", range_text(total["output_tokens"]), _ran(stats, "completion_tokens")
        ),
        _figure("longest request", f"{range_text(result['longest_request'])} {unit}"),
        _memory(result, stats),
    ]
    found += [_figure(f"money, {name}", money_text(cost)) for name, cost in result["money"].items()]
    if "time" in result:
        shown, _, rates = time_text(result["time"]).partition(", at ")
        found.append(_figure("time", shown, _ran(stats, "seconds", " s"), rates and f"at {rates}"))
    return found


def _figure(label: str, planned: str, actual: str = "", note: str = "") -> Figure:
    short = planned.replace(" to ", "–")
    found = {"label": label, "planned": short, "actual": actual, "note": note}
    return {name: text for name, text in found.items() if text}


def _memory(result: Mapping[str, Any], stats: Mapping[str, Any] | None) -> Figure:
    tokens, _, size = memory_text(result).partition(", ")
    ran = _ran(stats, "peak_kv_tokens", " at the peak of all")
    return _figure("KV of an instance", tokens.removesuffix(" at most"), ran, size)


def _ran(stats: Mapping[str, Any] | None, name: str, unit: str = "") -> str:
    value = None if stats is None else stats.get(name)
    if not isinstance(value, int | float):
        return ""
    return (f"{value:,}" if isinstance(value, int) else f"{value:.3g}") + unit


def _calls(stats: Mapping[str, Any] | None) -> str:
    return "" if stats is None else f"{sum(node['calls'] for node in stats['nodes']):,}"


def _hits(stats: Mapping[str, Any] | None) -> str:
    rate = None if stats is None else stats.get("hit_rate")
    return f"{100 * rate:.1f} %" if isinstance(rate, int | float) else ""
