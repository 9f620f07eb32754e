"""What a result says of a part of `gpu_peers`: figures of each engine, ratios, goals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.gpu.rates import GpuCeilings
from benchmarks.gpu.scripts import PROGRAMS
from benchmarks.gpu.shapes import ModelShape, causal_pairs
from benchmarks.gpu.works import PeerPart, Work

OURS = "sgc"
PROGRAMS_GOAL = 1.5  # geometric mean over the programs
FLOOR_GOAL = 0.8  # of a1's floor

Figures = dict[str, Any]


def figures(part: PeerPart, runs: Sequence[Mapping[str, Any]]) -> Figures:
    """One engine's figures: those of its best run, with the times of all.

    Runs are too few for a median. `legal` is the least of all runs.
    """
    best = min(runs, key=lambda run: run["seconds"])
    found: Figures = {
        "best_s": round(best["seconds"], 4),
        "seconds": [round(run["seconds"], 4) for run in runs],
        "new_tokens": [run["new_tokens"] for run in runs],
        "new_tokens_s": round(best["new_tokens"] / best["seconds"], 1),
    }
    if part.work.rows:
        found["requests_s"] = round(part.work.rows / best["seconds"], 2)
    for name in ("cached_tokens", "prompt_tokens", "calls", "characters", "sample"):
        if name in best:
            found[name] = best[name]
    if "legal" in best:
        found["legal"] = min(run["legal"] for run in runs)
    return found


def part_result(
    part: PeerPart,
    engines: Mapping[str, Figures],
    absent: Mapping[str, str],
    floor_s: float | None,
) -> dict[str, Any]:
    """A part's entry in the result file."""
    found: dict[str, Any] = {
        "what": part.what,
        "work": {k: v for k, v in part.work.to_dict().items() if v not in (None, 0)},
        "engines": dict(engines),
        "missing": dict(absent),
        "comparisons": _comparisons(part, engines),
    }
    if floor_s is not None:
        found["floor_s"] = round(floor_s, 4)
        ours = engines.get(OURS)
        if ours is not None and part.name == "a1":
            share = floor_s / ours["best_s"]
            found["comparisons"].append(
                {
                    "of": "the floor",
                    "share": round(share, 3),
                    "goal": FLOOR_GOAL,
                    "met": share >= FLOOR_GOAL,
                }
            )
    return found


def _comparisons(part: PeerPart, engines: Mapping[str, Figures]) -> list[dict[str, Any]]:
    """Ours beside each peer; the goal is judged against the best of them."""
    ours = engines.get(OURS)
    peers = {name: found for name, found in engines.items() if name != OURS and _did(part, found)}
    if ours is None or not peers:
        return []
    best = min(peers, key=lambda name: peers[name]["best_s"])
    entries = []
    for name, found in peers.items():
        ratio = found["best_s"] / ours["best_s"]
        entry: dict[str, Any] = {"peer": name, "speed_ratio": round(ratio, 3)}
        if "characters" in found and ours.get("characters"):
            # Another model state or another rule gives other texts: seconds a character, too.
            each = ratio * ours["characters"] / max(1, found["characters"])
            entry["speed_ratio_a_character"] = round(each, 3)
        if name == best and part.goal is not None:
            met = ratio >= part.goal and _did(part, ours)
            entry |= {"best": True, "goal": part.goal, "met": met}
        entries.append(entry)
    return entries


def _did(part: PeerPart, found: Figures) -> bool:
    """Whether it did the work: legal texts under a constraint."""
    return not part.constrained or found.get("legal", 0) == part.work.rows


def programs_result(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | None:
    """The geometric mean over all programs, against the best peer of each; None when one lacks."""
    ratios: dict[str, dict[str, float]] = {}
    for name in PROGRAMS:
        entries = parts.get(name, {}).get("comparisons", [])
        ratios[name] = {entry["peer"]: entry["speed_ratio"] for entry in entries}
        if not ratios[name]:
            return None
    best = [min(found.values()) for found in ratios.values()]
    mean = math.exp(statistics.fmean(map(math.log, best)))
    everywhere = set.intersection(*(set(found) for found in ratios.values()))
    return {
        "what": "geometric mean over the LM programs, against the best peer of each",
        "ratios": ratios,
        "means": {
            peer: round(math.exp(statistics.fmean(math.log(r[peer]) for r in ratios.values())), 3)
            for peer in sorted(everywhere)
        },
        "comparisons": [
            {"speed_ratio": round(mean, 3), "goal": PROGRAMS_GOAL, "met": mean >= PROGRAMS_GOAL}
        ],
    }


def prefill_floor_s(
    work: Work, shape: ModelShape, vocab: int, ceilings: GpuCeilings
) -> float | None:
    """Seconds for the operations of one token each at the matrix rate: shared ids once."""
    if work.program is not None or work.new != 1:
        return None
    tokens = work.shared + work.rows * work.own
    pairs = causal_pairs(work.shared) + work.rows * causal_pairs(work.own, work.shared)
    operations = shape.product_operations(tokens, work.rows, vocab)
    return ceilings.operations_s(operations + shape.attention_operations(pairs))


def lines(name: str, result: Mapping[str, Any]) -> list[str]:
    """For the screen."""
    out = [f"({name}) {result['what']}"]
    for engine, found in result.get("engines", {}).items():
        more = f", legal {found['legal']}" if "legal" in found else ""
        out.append(
            f"  {engine:22} {found['best_s']:8.3f} s  {found['new_tokens_s']:9.1f} tokens/s"
            f"  {found['seconds']}{more}"
        )
    for entry in result.get("comparisons", []):
        judged = {True: ": met", False: ": MISSED", None: ""}[entry.get("met")]
        goal = f", goal {entry['goal']}{judged}" if "goal" in entry else ""
        value = entry.get("speed_ratio", entry.get("share"))
        out.append(f"  against {entry.get('peer', entry.get('of', 'the best'))}: {value}x{goal}")
    return out
