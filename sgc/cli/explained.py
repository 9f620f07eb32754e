"""The result of `sgc explain`: plain data, and a table to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sgc_ir.analysis.forecast import Case, Forecast, NodeForecast, NodeKey, Range

_COUNTS = ("calls", "prompt_tokens", "cached_tokens", "output_tokens")


def plain(
    found: Forecast, unit: str, kv_bytes: int | None, money: Mapping[str, tuple[float, float]]
) -> dict[str, Any]:
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
        "money": {name: list(cost) for name, cost in money.items()},
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
    return {**named, "source": node.source, **numbers, **shared}


def compare(planned: dict[str, Any], stats: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Planned against actual, node by node; `within`: whether all numbers lie in their bounds."""
    actual = {(n["program"], n["node"], n["name"]): n for n in stats["nodes"]}
    lines = []
    for node in planned["nodes"]:
        ran = actual.pop((node["program"], node["node"], node["name"]), None)
        lines.append(_compared(node, ran))
    for ran in actual.values():
        lines.append({"node": ran["node"], "name": ran["name"], "planned": None} | _ran(ran))
    return lines


def _compared(node: Mapping[str, Any], ran: Mapping[str, Any] | None) -> dict[str, Any]:
    numbers = _ran(ran)
    within = {
        "calls": Range(*node["calls"]).holds(numbers["calls"]),
        "output_tokens": Range(*node["output_tokens"]).holds(numbers["output_tokens"]),
        "prompt_tokens": Range(*node["prompt_tokens"]).holds(numbers["prompt_tokens"]),
    }
    planned = {name: node[name] for name in _COUNTS}
    outside = [name for name, is_in in within.items() if not is_in]
    named = {"node": node["node"], "name": node["name"], "planned": planned}
    return named | numbers | {"outside": outside}


def _ran(ran: Mapping[str, Any] | None) -> dict[str, Any]:
    names = {"calls": "calls", "prompt_tokens": "prompt_tokens", "cached_tokens": "cached_tokens"}
    names["output_tokens"] = "completion_tokens"
    return {ours: 0 if ran is None else int(ran[theirs]) for ours, theirs in names.items()}


# -- text


def text(result: Mapping[str, Any]) -> str:
    """Tables: nodes, and the whole run."""
    unit = result["unit"]
    head = ["node", "variable", "calls", f"prompt {unit}", "shareable", "cached", "output"]
    rows = [
        [
            _place(node["program"], node["node"]),
            node["name"],
            _range(node["calls"]),
            _range(node["prompt_tokens"]),
            f"{node['shareable_tokens']:,}",
            _range(node["cached_tokens"]),
            _range(node["output_tokens"]),
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
        ("calls", _range(total["calls"])),
        (f"prompt {unit}", _range(total["prompt_tokens"])),
        ("shareable", f"{total['shareable_tokens']:,}"),
        ("best hit rate", _percent(low, high) + ("" if result["bounded"] else " or other")),
        (f"output {unit}", _range(total["output_tokens"])),
        ("begin of every prompt", f"{result['static_prefix']:,} {unit}"),
        ("longest request", f"{_range(result['longest_request'])} {unit}"),
        ("KV of an instance", _memory(result)),
    ]
    pairs += [(f"money, {name}", _money(cost)) for name, cost in result["money"].items()]
    lines = _table([list(pair) for pair in pairs], 2)
    if unit == "words":
        lines.append("Counted in words, roles as ChatML; --model M counts that model's tokens.")
    lines += [f"row {row}: {why}" for row, why in list(result["failures"].items())[:5]]
    return lines


def _memory(result: Mapping[str, Any]) -> str:
    shown = f"{_range(result['instance_kv_tokens'])} {result['unit']} at most"
    size = result["instance_kv_bytes"]
    if size is None:
        return shown
    return f"{shown}, {_range([_mib(n) for n in size])} MiB in 16 bits"


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
    return shown if planned is None else f"{shown} ({_range(planned[name])})"


def _place(program: str, path: str) -> str:
    return f"{program}: {path}"


def _range(bounds: Sequence[int | None]) -> str:
    low, high = bounds
    if high is None:
        return f"{low:,} or more"
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _percent(low: float, high: float) -> str:
    shown = [f"{100 * rate:.1f} %" for rate in (low, high)]
    return shown[0] if shown[0] == shown[1] else " to ".join(shown)


def _money(cost: Sequence[float]) -> str:
    shown = [f"{amount:,.4f}" for amount in cost]
    return shown[0] if shown[0] == shown[1] else " to ".join(shown)


def _table(rows: Sequence[Sequence[str]], gap: int) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [cell.ljust(width + gap) for cell, width in zip(row, widths, strict=True)]
        lines.append("".join(cells).rstrip())
    return lines
