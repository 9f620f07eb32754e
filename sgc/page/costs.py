"""The costs of a forecast, beside the nodes of the graph that have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sgc.page.drawing import Shown
from sgc.page.nodes import name_of
from sgc.page.paths import CallKey, NodeFinder
from sgc_ir.drawing.model import Item
from sgc_ir.ops import Op

_CALLS = (Op.GEN, Op.SELECT)
_COUNTS = ("calls", "prompt_tokens", "output_tokens")
Bounds = Sequence[float | None]


def finder(shown: Sequence[Shown]) -> NodeFinder:
    """Finds model and tool calls of the graph; other nodes answer to no key."""
    keys = []
    for found in shown:
        node = found.item.node
        kind = found.graph if node.op in (*_CALLS, Op.CALL) else ""
        keys.append(CallKey(kind, found.item.path, name_of(node), str(node.source)))
    return NodeFinder(keys, relative=True)


def cost_rows(result: Mapping[str, Any], nodes: NodeFinder) -> list[dict[str, Any]]:
    """The node rows of `sgc explain`'s result, with `actual` where it holds one and `nodes`, the
    numbers of the graph's nodes whose calls they sum up. Rows that only ran come last."""
    rows = [dict(row) for row in result["nodes"]]
    for row, ran in zip(rows, result.get("actual", ()), strict=False):
        row["actual"] = _actual(ran)
    for ran in result.get("actual", ())[len(rows) :]:
        named = {name: ran[name] for name in ("program", "node", "name", "source")}
        rows.append(named | {"kind": "", "actual": _actual(ran)})
    for row in rows:
        row["nodes"] = nodes.find(CallKey.of(row))
    return rows


def _actual(ran: Mapping[str, Any]) -> dict[str, Any]:
    names = (*_COUNTS, "cached_tokens", "seconds", "run_seconds", "outside")
    return {name: ran[name] for name in names if name in ran}


class CostLines:
    """The costs of a node as one more line of its label.

    Args:
        rows: see `cost_rows`.
        shown: nodes in the order in which the rows number them.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]], shown: Sequence[Shown]) -> None:
        self._lines: dict[str, tuple[str, ...]] = {}
        for row in rows:
            line = _line(row)
            for number in row["nodes"]:
                key = shown[number].item.key
                self._lines[key] = (*self._lines.get(key, ()), line)

    def __call__(self, item: Item) -> tuple[str, ...]:
        return self._lines.get(item.key, ())


def _line(row: Mapping[str, Any]) -> str:
    ran = row.get("actual")
    if ran is not None:
        shown = [f"{ran[n]:,}" for n in _COUNTS]
    else:
        shown = [bounds(row[n]) for n in _COUNTS]
    together = f" in {len(row['nodes'])} nodes" if len(row["nodes"]) > 1 else ""
    return f"×{shown[0]}{together} · in {shown[1]} · out {shown[2]}"


def bounds(pair: Bounds) -> str:
    """`3`, `3–7` or `3+` of a range whose upper end may be open."""
    low, high = pair
    if high is None:
        return f"{low:,}+"
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"
