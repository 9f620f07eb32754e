"""Counters of the engine under the names of `--stats`."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from sgc_ir.params import Usage


@dataclass(slots=True)
class Metrics:
    """Steps and sampled tokens are counted in the engine's thread, calls wherever they end.

    `completion_tokens` grows step by step and has what no call's usage has: the tokens of calls
    that fail or are cancelled, and those that only spell the end of a prompt anew (`heal`). A step
    that carries prefill and decoding rows counts as both. `peak_kv_tokens` is the largest number of
    slots that unfinished requests referenced at once. `aside_steps` is the number of steps that
    went on without some request whose constraint took too long, counted for each such request.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    forced_tokens: int = 0
    scored_tokens: int = 0
    recomputed_tokens: int = 0
    retractions: int = 0
    prefill_steps: int = 0
    decode_steps: int = 0
    aside_steps: int = 0
    peak_running: int = 0
    peak_kv_tokens: int = 0
    _steps: int = 0
    _running: int = 0  # summed over steps
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add_call(self, usage: Usage) -> None:
        """Count a model call that is done; its sampled tokens have been counted."""
        with self._lock:
            self.prompt_tokens += usage.prompt_tokens
            self.cached_tokens += usage.cached_tokens
            self.forced_tokens += usage.forced_tokens
            self.scored_tokens += usage.scored_tokens

    def see(self, running: int, kv_tokens: int) -> None:
        """Note how much is in flight in a step."""
        self._steps += running > 0
        self._running += running
        self.peak_running = max(self.peak_running, running)
        self.peak_kv_tokens = max(self.peak_kv_tokens, kv_tokens)

    @property
    def mean_running(self) -> float:
        """Sequences in flight, on average over the steps: the batch size."""
        return self._running / max(self._steps, 1)

    def to_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in COUNTERS}


COUNTERS = tuple(n for n in Metrics.__dataclass_fields__ if not n.startswith("_"))
