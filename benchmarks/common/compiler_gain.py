"""What the runs of the compiler's benchmark say: speedup, its causes, and the goal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import geometric_mean, median
from typing import Any

from benchmarks.common.compiler_arms import Figures

GOAL_MEAN, GOAL_LEAST = 1.2, 0.98
_BARE, _GRAPH = "interpreted without hints", "graph alone"
_STEPS = (_BARE, _GRAPH, "and passes", "and plan", "compiled")
_CAUSES = ("calls seen", "known tokens", "order", "hints")


def middle(figures: Sequence[Figures]) -> Figures:
    """The run of the median makespan (the lower one of two)."""
    return sorted(figures, key=lambda run: run.seconds)[(len(figures) - 1) // 2]


def speedup(runs: Mapping[str, Sequence[Figures]]) -> dict[str, Any]:
    """Interpreted over compiled, as the median over the pairs."""
    pairs = zip(runs["interpreted"], runs["compiled"], strict=True)
    ratios = [a.seconds / b.seconds for a, b in pairs]
    return {
        "speedup": round(median(ratios), 4),
        "speedups": [round(ratio, 3) for ratio in ratios],
        "least_of_goal": GOAL_LEAST,
        "met": median(ratios) >= GOAL_LEAST,
    }


def causes(arms: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What each cause multiplies programs/s by, and prompt tokens that it saves, one after another.

    `calls seen` is what the graph alone brings, without passes, plan and hints, but for what the
    host takes more for it (`overhead`, at most: while the model computes the host's time may cost
    nothing); `hints` is what they bring beyond those that an interpreter can send, too. The product
    is the speedup of these runs.
    """
    if any(name not in arms for name in ("interpreted", *_STEPS)):
        return {}
    found = {
        cause: _between(arms[before], arms[after])
        for cause, before, after in zip(_CAUSES, _STEPS, _STEPS[1:], strict=False)
    }
    seconds = arms[_BARE]["makespan_s"]
    overhead = seconds / (seconds + arms[_GRAPH]["host_s"] - arms[_BARE]["host_s"])
    found["calls seen"]["speedup"] = round(found["calls seen"]["speedup"] / overhead, 4)
    own = _between(arms[_BARE], arms["interpreted"])
    found["hints"] = {
        "speedup": round(found["hints"]["speedup"] / own["speedup"], 4),
        "prompt_tokens_saved": found["hints"]["prompt_tokens_saved"] - own["prompt_tokens_saved"],
    }
    return {"overhead": {"speedup": round(overhead, 4), "prompt_tokens_saved": 0}, **found}


def _between(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "speedup": round(before["makespan_s"] / after["makespan_s"], 4),
        "prompt_tokens_saved": before["computed_prompt_tokens"] - after["computed_prompt_tokens"],
    }


def summary(
    parts: Mapping[str, Mapping[str, Any]], programs: Sequence[str], settings: Sequence[str]
) -> dict[str, Any]:
    """Speedups of each setting over all programs of the file, and the goal in the first one."""
    found: dict[str, Any] = {}
    for setting in settings:
        names = {name: f"{name}, {setting}" for name in programs}
        by = {name: parts[part]["speedup"] for name, part in names.items() if part in parts}
        if not by:
            continue
        mean = geometric_mean(by.values())
        found[setting] = {
            "geometric_mean": round(mean, 4),
            "least": min(by, key=by.__getitem__),
            "speedups": by,
            "below_least": sorted(name for name, value in by.items() if value < GOAL_LEAST),
            "measured": f"{len(by)} of {len(programs)}",
        }
        if setting == settings[0]:
            whole = len(by) == len(programs)  # a part of the suite says nothing of the goal
            met = mean >= GOAL_MEAN and not found[setting]["below_least"] if whole else None
            found[setting] |= {"goal": GOAL_MEAN, "met": met}
    return found
