"""The result of `sgc explain`: plain data, and a table to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sgc.cli.rates import run_seconds
from sgc.page.paths import CallKey, NodeFinder
from sgc_ir.analysis.forecast import Case, Forecast, NodeForecast, Range
from sgc_ir.analysis.known_calls import NodeKey

_COUNTS = ("calls", "prompt_tokens", "cached_tokens", "output_tokens")


def plain(found: Forecast, unit: str, kv_bytes: int | None) -> dict[str, Any]:
    """JSON data; a range is `[low, high]`, `high` null where there is none."""
    total: dict[str, Any] = {
        name: list(sum((getattr(n, name) for n in found.nodes.values()), Range(0, 0)))
        for name in _COUNTS
    }
    total |= {
        "shareable_tokens": sum(n.shareable_tokens for n in found.nodes.values()),
        "hit_rate": sorted((found.least.hit_rate, found.most.hit_rate)),
    }
    return {
        "rows": found.rows,
        "unit": unit,
        "bounded": found.bounded,
        "total": total,
        "least": _case(found.least),
        "most": _case(found.most),
        "static_prefix": found.static_prefix,
        "longest_request": list(found.longest_request),
        "instance_kv_tokens": list(found.instance_kv),
        "instance_kv_bytes": _bytes(found.instance_kv, kv_bytes),
        "row_order": list(found.row_order),
        "failures": {str(row): why for row, why in found.failures.items()},
        "nodes": [_node(key, node) for key, node in found.nodes.items()],
    }


def _case(case: Case) -> dict[str, Any]:
    return {
        "calls": case.calls,
        "prompt_tokens": case.prompt_tokens,
        "computed_tokens": case.computed_tokens,
        "output_tokens": case.output_tokens,
        "hit_rate": case.hit_rate,
    }


def _bytes(tokens: Range, each: int | None) -> list[int | None] | None:
    if each is None:
        return None
    return [tokens.low * each, None if tokens.high is None else tokens.high * each]


def _node(key: NodeKey, node: NodeForecast) -> dict[str, Any]:
    program, path, name = key
    named = {"program": program, "node": path, "name": name, "kind": node.kind}
    numbers = {count: list(getattr(node, count)) for count in _COUNTS}
    shared = {"shareable_tokens": node.shareable_tokens, "readers": node.readers}
    rates = {"hit_rate": _hit_rate(node), "longest_request": list(node.longest)}
    return {**named, "source": node.source, **numbers, **shared, **rates}


def _hit_rate(node: NodeForecast) -> list[float] | None:
    """Lower and higher of the cached parts of the prompt tokens in the least and the most case;
    None without bound or without prompts."""
    (low, high), (cached_low, cached_high) = node.prompt_tokens, node.cached_tokens
    if high is None or cached_high is None:
        return None
    cases = ((low, cached_low), (high, cached_high))
    rates = [cached / tokens for tokens, cached in cases if tokens]
    return [min(rates), max(rates)] if rates else None


def compare(planned: dict[str, Any], stats: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Planned against actual, node by node; `outside`: numbers that do not lie in their bounds.

    What ran stands beside the planned node of its path; where there is none, beside the first
    whose path, `*` being what the run decides, may be its own. The rest comes last, with
    `planned` None.
    """
    matched: dict[int, list[Mapping[str, Any]]] = {}
    others = []
    finder = NodeFinder(map(CallKey.of, planned["nodes"]))
    for ran in stats["nodes"]:
        found = finder.find(CallKey.of(ran))
        if found:
            matched.setdefault(found[0], []).append(ran)
        else:
            others.append(ran)
    lines = [
        _compared(node, _ran(matched.get(index, ()), stats))
        for index, node in enumerate(planned["nodes"])
    ]
    return lines + [_named(ran) | {"planned": None} | _ran([ran], stats) for ran in others]


def _named(node: Mapping[str, Any]) -> dict[str, Any]:
    return {name: node.get(name) for name in ("program", "node", "name", "source")}


def _compared(node: Mapping[str, Any], numbers: Mapping[str, Any]) -> dict[str, Any]:
    checked = ("calls", "output_tokens", "prompt_tokens")
    outside = [name for name in checked if not Range(*node[name]).holds(numbers[name])]
    planned = {name: node[name] for name in _COUNTS}
    return {**_named(node), "planned": planned, **numbers, "outside": outside}


def _ran(ran: Sequence[Mapping[str, Any]], stats: Mapping[str, Any]) -> dict[str, Any]:
    """Sums; `seconds`, of waiting, prefill and decode added up over calls, and `run_seconds` where
    the run has measured times."""
    names = {name: name for name in _COUNTS} | {"output_tokens": "completion_tokens"}
    numbers: dict[str, Any] = {
        ours: sum(int(node[theirs]) for node in ran) for ours, theirs in names.items()
    }
    shares = [share for node in ran if (share := run_seconds(stats, node)) is not None]
    if shares:
        parts = [f"{part}_seconds" for part in ("waiting", "prefill", "decode")]
        seconds = [sum(float(node.get(part) or 0.0) for node in ran) for part in parts]
        numbers |= {"seconds": seconds, "run_seconds": sum(shares)}
    return numbers


# -- text


def text(result: Mapping[str, Any]) -> str:
    """Tables: nodes, and the whole run."""
    unit = result["unit"]
    head = ["node", "variable", "calls", f"prompt {unit}", "shareable", "cached", "output"]
    head.append("longest call")
    head += [f"money, {name}" for name in result["money"]]
    rows = [
        [
            _place(node["program"], node["node"]),
            node["name"],
            range_text(node["calls"]),
            range_text(node["prompt_tokens"]),
            f"{node['shareable_tokens']:,}",
            range_text(node["cached_tokens"]),
            range_text(node["output_tokens"]),
            range_text(node["longest_request"]),
            *(money_text(node["money"][name]) for name in result["money"]),
        ]
        for node in result["nodes"]
    ]
    lines = [*_table([head, *rows], 2), "", *_summary(result)]
    if "actual" in result:
        lines += ["", *_analysis(result["actual"])]
    return "\n".join(lines) + "\n"


def _summary(result: Mapping[str, Any]) -> list[str]:
    total, unit = result["total"], result["unit"]
    low, high = total["hit_rate"]
    pairs = [
        ("rows", f"{result['rows']:,}"),
        ("calls", range_text(total["calls"])),
        (f"prompt {unit}", range_text(total["prompt_tokens"])),
        ("shareable", f"{total['shareable_tokens']:,}"),
        ("best hit rate", percent_text(low, high) + ("" if result["bounded"] else " or other")),
        (f"output {unit}", range_text(total["output_tokens"])),
        ("begin of every prompt", f"{result['static_prefix']:,} {unit}"),
        ("longest request", f"{range_text(result['longest_request'])} {unit}"),
        ("KV of an instance", memory_text(result)),
    ]
    pairs += [(f"money, {name}", money_text(cost)) for name, cost in result["money"].items()]
    if "time" in result:
        pairs.append(("time", time_text(result["time"])))
    lines = _table([list(pair) for pair in pairs], 2)
    if unit == "words":
        lines.append("Counted in words, roles as ChatML; --model M counts that model's tokens.")
    lines += [f"row {row}: {why}" for row, why in list(result["failures"].items())[:5]]
    return lines


def memory_text(result: Mapping[str, Any]) -> str:
    shown = f"{range_text(result['instance_kv_tokens'])} {result['unit']} at most"
    size = result["instance_kv_bytes"]
    if size is None:
        return shown
    return f"{shown}, {range_text([_mib(n) for n in size])} MiB in 16 bits"


def time_text(time: Mapping[str, Any]) -> str:
    """The expected time and the rates that it comes from, or why there is none."""
    if time["seconds"] is None:
        return f"left out: {time['reason']}"
    low, high = time["seconds"]
    shown = _seconds(low) if high is None or high == low else f"{_seconds(low)} to {_seconds(high)}"
    prompt, output = (time[f"{name}_tokens_per_s"] for name in ("prompt", "output"))
    rates = [
        f"{rate:,.0f} {name}" for rate, name in ((prompt, "prompt"), (output, "output")) if rate
    ]
    more = " or more" if high is None else ""
    return f"{shown} s{more}, at {' and '.join(rates)} tokens a second"


def _seconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _mib(size: int | None) -> int | None:
    return None if size is None else -(-size // 2**20)


def _analysis(actual: Sequence[Mapping[str, Any]]) -> list[str]:
    head = ["node", "variable", "calls", "prompt", "cached", "output", "planned otherwise"]
    rows = []
    for node in actual:
        outside = node.get("outside")
        said = "not planned" if outside is None else ", ".join(outside) or "-"
        rows.append([node["node"], node["name"], *[_against(node, n) for n in _COUNTS], said])
    return ["Actual (planned):", *_table([head, *rows], 2)]


def _against(node: Mapping[str, Any], name: str) -> str:
    planned = node["planned"]
    shown = f"{node[name]:,}"
    return shown if planned is None else f"{shown} ({range_text(planned[name])})"


def _place(program: str, path: str) -> str:
    return f"{program}: {path}"


def range_text(bounds: Sequence[Any]) -> str:
    """The text of a `[low, high]` of the plain data."""
    return str(Range(*bounds))


def percent_text(low: float, high: float) -> str:
    shown = [f"{100 * rate:.1f} %" for rate in (low, high)]
    return shown[0] if shown[0] == shown[1] else " to ".join(shown)


def money_text(cost: Sequence[float | None]) -> str:
    shown = [
        f"{amount:,.4f}" if amount >= 0.01 or not amount else f"{amount:.6f}"
        for amount in cost
        if amount is not None
    ]
    if len(shown) < len(cost):
        return f"{shown[0]} or more" if shown else "0 or more"
    return shown[0] if shown[0] == shown[1] else " to ".join(shown)


def _table(rows: Sequence[Sequence[str]], gap: int) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [cell.ljust(width + gap) for cell, width in zip(row, widths, strict=True)]
        lines.append("".join(cells).rstrip())
    return lines
