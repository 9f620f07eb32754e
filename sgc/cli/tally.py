"""What a run has cost so far, its closing table and the numbers of `--stats`."""

from __future__ import annotations

import time
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from sgc.live_line import Figure
from sgc_ir.params import Usage
from sgc_runtime.executor.merges import Merges
from sgc_runtime.executor.node_stats import NodeTable

# Counters of `--stats` that only the backend knows; None where it does not count them.
BACKEND_COUNTERS = (
    "optimal_hit_rate",
    "recomputed_tokens",
    "retractions",
    "prefill_steps",
    "decode_steps",
    "peak_running",
    "mean_running",
    "peak_kv_tokens",
    "tokenizer_calls",
)


@dataclass(slots=True)
class Tally:
    """Counts of finished rows; times in seconds."""

    rows: int = 0
    failed: int = 0
    load_seconds: float = 0.0
    started: float = field(default_factory=time.monotonic)
    ended: float | None = None
    backend: Mapping[str, Any] = field(default_factory=dict)  # its counters, as last observed
    nodes: NodeTable = field(default_factory=NodeTable)
    merges: Merges | None = None
    reported: Usage = field(default_factory=Usage)  # by the rows, merged calls as if made

    latencies: array[float] = field(default_factory=lambda: array("d"))  # seconds of each row

    def add(self, usage: Usage, failed: bool, seconds: float) -> None:
        self.rows += 1
        self.latencies.append(seconds)
        self.failed += failed
        self.reported += usage

    @property
    def usage(self) -> Usage:
        """What the calls that were made used."""
        return self.reported if self.merges is None else self.merges.without_saved(self.reported)

    def observe(self, backend: Mapping[str, Any]) -> None:
        """Counters of the backend, which see tokens of rows that still run."""
        self.backend = backend

    def figures(self) -> list[Figure]:
        """Failed rows, tokens a second and hit rate up to now, and what the backend does now."""
        asked, cached, made = (
            max(getattr(self.usage, name), self.backend.get(name) or 0)
            for name in ("prompt_tokens", "cached_tokens", "completion_tokens")
        )
        rate, hits = f"{made / self.seconds:.0f}", f"{100 * cached / max(asked, 1):.0f} %"
        found = [
            Figure(f"{rate} tokens/s", f"{rate} tok/s"),
            Figure(f"hit rate {hits}", f"hit {hits}"),
        ]
        for what, short in (("running", "run"), ("waiting", "wait")):
            count = self.backend.get(what)
            if count is not None:
                found.append(Figure(f"{count} {what}", f"{count} {short}"))
        failed = f"{self.failed} failed"
        return [Figure(failed, failed), *found] if self.failed else found

    def stop(self, backend: Mapping[str, Any]) -> None:
        """The last row has ended. A backend that loaded its model meanwhile, not before the first
        row, says how long."""
        self.ended = time.monotonic()
        if not self.load_seconds:
            self.load_seconds = float(backend.get("load_seconds") or 0.0)
            self.ended -= self.load_seconds

    @property
    def seconds(self) -> float:
        """Time since the first row could start; loading the model is not part of it."""
        end = time.monotonic() if self.ended is None else self.ended
        return max(end - self.started, 1e-9)

    @property
    def hit_rate(self) -> float:
        """Cached share of all prompt tokens, 0 without any."""
        return self.usage.cached_tokens / max(self.usage.prompt_tokens, 1)

    @property
    def tokens_per_s(self) -> float:
        """Generated tokens a second."""
        return self.usage.completion_tokens / self.seconds

    @property
    def programs_per_s(self) -> float:
        return self.rows / self.seconds

    def stats(self, backend: Mapping[str, Any]) -> dict[str, Any]:
        """The numbers of `--stats`; `backend` holds the counters of the backend."""
        usage = self.usage
        numbers = {
            "rows": self.rows,
            "failed": self.failed,
            "seconds": self.seconds,
            "load_seconds": self.load_seconds,
            "programs_per_s": self.programs_per_s,
            **latency_figures(self.latencies),
            "prompt_tokens": usage.prompt_tokens,
            "cached_tokens": usage.cached_tokens,
            "hit_rate": self.hit_rate,
            "completion_tokens": usage.completion_tokens,
            "forced_tokens": usage.forced_tokens,
            "scored_tokens": usage.scored_tokens,
        }
        return (
            numbers
            | {name: backend.get(name) for name in BACKEND_COUNTERS}
            | {"merged_calls": 0 if self.merges is None else self.merges.calls}
            | {"started_nodes": self.nodes.started, "dead_nodes": self.nodes.dead}
            | {"nodes": self.nodes.to_list()}
            | ({} if self.merges is None else {"merged": self.merges.to_list()})
        )

    def table(self) -> list[tuple[str, str]]:
        """The closing table: label and value."""
        usage = self.usage
        rows = f"{self.rows:,}" + (f" ({self.failed:,} failed)" if self.failed else "")
        merged = self.merges.calls if self.merges is not None else 0
        loading = f" (and {self.load_seconds:.1f} to load)" if self.load_seconds >= 0.05 else ""
        return [
            ("rows", rows),
            ("prompt tokens", f"{usage.prompt_tokens:,}"),
            ("cached tokens", f"{usage.cached_tokens:,}"),
            ("hit rate", f"{100 * self.hit_rate:.1f} %"),
            ("generated tokens", f"{usage.completion_tokens:,} ({self.tokens_per_s:.1f} a second)"),
            *([("merged calls", f"{merged:,}")] if merged else []),
            ("seconds", f"{self.seconds:.1f}{loading}"),
            ("programs/s", f"{self.programs_per_s:.2f}"),
        ]


def latency_figures(seconds: Sequence[float]) -> dict[str, float | None]:
    """Median, 99th percentile (the nearest rank) and mean of what rows took, in seconds."""
    ordered = sorted(seconds)
    if not ordered:
        return dict.fromkeys(("latency_p50_s", "latency_p99_s", "latency_mean_s"))
    return {
        "latency_p50_s": ordered[ceil(0.5 * len(ordered)) - 1],
        "latency_p99_s": ordered[ceil(0.99 * len(ordered)) - 1],
        "latency_mean_s": sum(ordered) / len(ordered),
    }
