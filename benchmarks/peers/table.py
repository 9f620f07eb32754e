"""Ratios of one workload, and their geometric mean."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.common.timing import Samples

GOAL, FLOOR = 3.0, 1.0


def ratios(samples: Mapping[str, Samples], ours: str) -> dict[str, float]:
    """How many times as long each peer takes as ours, by medians."""
    own = samples[ours].median
    return {name: found.median / own for name, found in samples.items() if name != ours}


def best_peer(found: Mapping[str, float]) -> str | None:
    """The fastest peer; None where none took part."""
    return min(found, key=lambda name: found[name]) if found else None


def geometric_mean(values: Sequence[float]) -> float:
    """Of positive numbers, at least one."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def overall(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Geometric means over the workloads: of the best peer of each, and of each peer over those
    that it took part in; {} without a ratio."""
    best = {name: part["ratio"] for name, part in parts.items() if part.get("ratio")}
    if not best:
        return {}
    by_peer: dict[str, list[float]] = {}
    for part in parts.values():
        for name, ratio in part.get("ratios", {}).items():
            by_peer.setdefault(name, []).append(ratio)
    return {
        "workloads": len(best),
        "best_peer": round(geometric_mean(list(best.values())), 3),
        "goal": GOAL,
        "lowest": {"workload": min(best, key=lambda n: best[n]), "ratio": min(best.values())},
        "floor": FLOOR,
        "by_peer": {
            name: {"workloads": len(found), "geometric_mean": round(geometric_mean(found), 3)}
            for name, found in by_peer.items()
        },
    }


def line(name: str, part: Mapping[str, Any]) -> str:
    """A workload in one line."""
    if not part.get("ratio"):
        return f"{name}: no peer took part"
    others = ", ".join(f"{peer} {ratio:.2f}x" for peer, ratio in part["ratios"].items())
    own, best = part["seconds"]["sgc"]["median_s"], f"{part['best']} ({part['ratio']:.2f}x)"
    return f"{name}: sgc {own:.2f} s; the best peer is {best}; {others}"
