"""Expected time of a run, from the tokens a second that another run measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Pair = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Rates:
    """Tokens a second of a whole run, None where it measured none.

    Calls that run side by side each have their own seconds of prefill and of decode. The run's
    seconds are divided between the two as these are, so that a rate holds for the run as it was:
    its backend, its machine, and about as many calls at once.
    """

    prompt: float | None  # computed prompt tokens
    output: float | None

    def seconds(self, computed: float, output: float) -> float | None:
        """Time of so many tokens; None where a rate that it needs is unknown."""
        total = 0.0
        for tokens, rate in ((computed, self.prompt), (output, self.output)):
            if tokens and rate is None:
                return None
            total += tokens / rate if rate else 0.0
        return total


def measured(stats: Mapping[str, Any]) -> Rates:
    """The rates of a run, from its `--stats`."""
    nodes = stats["nodes"]
    prefill, decode = (_sum(nodes, f"{part}_seconds") for part in ("prefill", "decode"))
    total = float(stats.get("seconds") or 0.0)
    computed = _sum(nodes, "prompt_tokens") - _sum(nodes, "cached_tokens")
    output = _sum(nodes, "completion_tokens")
    busy = prefill + decode
    return Rates(_rate(computed, total, prefill, busy), _rate(output, total, decode, busy))


def _sum(nodes: Sequence[Mapping[str, Any]], name: str) -> float:
    return float(sum(node.get(name) or 0 for node in nodes))


def _rate(tokens: float, total: float, part: float, busy: float) -> float | None:
    seconds = total * part / busy if busy else 0.0
    return tokens / seconds if tokens > 0 and seconds > 0 else None


def add_time(result: dict[str, Any], rates: Rates) -> None:
    """Write into the result of `sgc explain` the `time` of the run, and `seconds` of each node
    whose bounds have a time: `[low, high]`, `high` null where there is no bound."""
    if result["unit"] != "tokens":
        result["time"] = {"seconds": None, "reason": "time needs tokens: give --model M"}
        return
    cases = [result["least"], result["most"]]
    ends = [rates.seconds(case["computed_tokens"], case["output_tokens"]) for case in cases]
    rated = {"prompt_tokens_per_s": rates.prompt, "output_tokens_per_s": rates.output}
    if ends[0] is None or (ends[1] is None and result["bounded"]):
        reason = "the run that was measured has no tokens a second of prefill or of decode"
        result["time"] = {"seconds": None, "reason": reason}
        return
    high = max(ends[0], ends[1] or 0.0) if result["bounded"] else None
    result["time"] = {"seconds": [min(ends[0], ends[1] or ends[0]), high], **rated}
    for node in result["nodes"]:
        seconds = _node(node, rates)
        if seconds is not None:
            node["seconds"] = seconds


def _node(node: Mapping[str, Any], rates: Rates) -> list[float | None] | None:
    prompt, cached, output = (
        node[name] for name in ("prompt_tokens", "cached_tokens", "output_tokens")
    )
    low = rates.seconds(prompt[0] - cached[0], output[0])
    if low is None:
        return None
    if None in (prompt[1], cached[1], output[1]):
        return [low, None]
    high = rates.seconds(prompt[1] - cached[1], output[1])
    # More paths may share more of a node's prompts than the certain ones alone.
    return None if high is None else [min(low, high), max(low, high)]


def run_seconds(stats: Mapping[str, Any], node: Mapping[str, Any]) -> float | None:
    """The part of the run's seconds that a node took, divided as `Rates` says; None where no
    times were measured."""
    busy = sum(_sum(stats["nodes"], f"{part}_seconds") for part in ("prefill", "decode"))
    own = sum(float(node.get(f"{part}_seconds") or 0) for part in ("prefill", "decode"))
    return float(stats.get("seconds") or 0.0) * own / busy if busy else None
