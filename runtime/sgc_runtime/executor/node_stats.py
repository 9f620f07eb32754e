"""What each node of a program cost over all rows of a run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sgc_ir.params import CallResult, Timing, Usage
from sgc_runtime.executor.merges import MergedResult

MAX_NODES = 2_000  # more are counted together, so that a run over endless loops stays bounded
OTHERS = "..."

_PARTS = ("waiting", "prefill", "decode")
_INDEX = re.compile(r"\[\d+\]")


@dataclass(slots=True)
class NodeStats:
    """Sums over the calls of one node; `timing` in seconds, as far as the backend measures."""

    source: str | None
    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    timing: Timing = field(default_factory=Timing)


class NodeTable:
    """Nodes by program, path (branches of one fork counted together) and variable.

    Event-loop thread only, but for `to_list`.
    """

    def __init__(self) -> None:
        self._nodes: dict[tuple[str, str, str], NodeStats] = {}
        self.calls = 0  # model calls of all nodes
        self.started = 0  # nodes of graphs and of passes of loops, of all kinds
        self.dead = 0  # those on paths that were not taken

    def count(self, started: int, dead: int) -> None:
        """A graph, or one pass of a loop, has been run."""
        self.started += started
        self.dead += dead

    def add(
        self, program: str, node: str, name: str, source: Any, results: Sequence[CallResult]
    ) -> None:
        """Count one model call that is done; one that took the result of another was not made."""
        if results and isinstance(results[0], MergedResult):
            return
        key = (program, _INDEX.sub("[*]", node), name)
        found = self._nodes.get(key)
        if found is None:
            found = self._new(key, source)
        found.calls += 1
        self.calls += 1
        for result in results:
            found.usage += result.usage
        timings = [result.timing for result in results if result.timing is not None]
        if timings:  # the samples of one call run side by side: the slowest one counts
            found.timing += max(timings, key=lambda t: t.total)

    def _new(self, key: tuple[str, str, str], source: Any) -> NodeStats:
        if len(self._nodes) >= MAX_NODES:
            key, source = (key[0], OTHERS, ""), None
        return self._nodes.setdefault(key, NodeStats(str(source) if source else None))

    def to_list(self) -> list[dict[str, Any]]:
        """One dict a node, in the order of the first calls, for `--stats`."""
        return [
            {"program": program, "node": node, "name": name, "source": stats.source}
            | {"calls": stats.calls}
            | asdict(stats.usage)
            | {f"{part}_seconds": getattr(stats.timing, part) for part in _PARTS}
            for (program, node, name), stats in list(self._nodes.items())
        ]
