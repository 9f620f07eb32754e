"""The engines that a run compares, and their calibration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common.data import Data
from benchmarks.common.goals import Rates, rates
from benchmarks.common.parts import CALIBRATION, Part
from benchmarks.common.peer import Peer, PeerMissing, Replay, check_replay
from benchmarks.common.recording import Recording
from benchmarks.common.sgc_engine import Counted, Job, SgcEngine
from benchmarks.common.timing import Samples, interleave

OURS: dict[str, dict[str, Any]] = {
    "sgc": {},
    "sgc, dense bfloat16": {"weights": "dense"},
}  # the first one is judged
KV_TOKENS = 24_000


@dataclass(slots=True)
class Measured:
    """One workload on all engines.

    Attributes:
        counted: what ours did, by engine.
        replays: the last replay of each peer.
        samples: times by engine.
        missing: why an engine does not take part.
    """

    recording: Recording
    counted: dict[str, Counted] = field(default_factory=dict)
    replays: dict[str, Replay] = field(default_factory=dict)
    samples: dict[str, Samples] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


class Lineup:
    """All engines, loaded once.

    Args:
        names: of `peer.PEERS`.
        threads: of each engine.
    """

    def __init__(self, model: Path, names: Iterable[str], threads: int) -> None:
        self.missing: dict[str, str] = {}
        self.ours: dict[str, SgcEngine] = {}
        for name, options in OURS.items():
            self.ours[name] = SgcEngine(model, kv_tokens=KV_TOKENS, **options)
        self.peers: dict[str, Peer] = {}
        for name in names:
            try:
                self.peers |= {peer.name: peer for peer in self._make(name, model, threads)}
            except PeerMissing as reason:
                self.missing[name] = str(reason)
        self._rates: dict[str, Rates] = {}

    def measure(self, job: Job, repetitions: int, only: Iterable[str] | None = None) -> Measured:
        """Record the run, warm every engine up with all of it, then time them in turn.

        Raises ValueError when an engine did other work than was recorded.
        """
        first = next(iter(self.ours.values()))
        first.run(job)
        measured = Measured(first.record(job))
        works: dict[str, Callable[[], float]] = {}
        for name, engine in self.ours.items():
            measured.counted[name] = checked(engine.count(job), measured.recording, name)
            works[name] = partial(engine.time, job)
        for name, peer in self.peers.items():
            if only is not None and name not in only:
                continue
            replay = partial(_replay, peer, measured)
            try:
                replay()
                works[name] = replay
            except PeerMissing as reason:
                measured.missing[name] = str(reason)
        measured.samples = interleave(works, repetitions)
        return measured

    def calibrate(self, data: Data, limit: int | None, repetitions: int | None) -> dict[str, Any]:
        """Rates of unshared work of every engine, kept for `rates_of`; what the file says."""
        done = {name: self._calibration(p, data, limit, repetitions) for name, p in _PARTS}
        prompts, chats = done["prefill"], done["decode"]
        for name in prompts.samples.keys() & chats.samples.keys():
            self._rates[name] = rates(
                prompts.recording,
                prompts.samples[name].median,
                chats.recording,
                chats.samples[name].median,
            )
        return {
            name: {"prefill_tokens_s": round(r.prefill, 1), "decode_tokens_s": round(r.decode, 1)}
            for name, r in self._rates.items()
        }

    def _calibration(
        self, part: Part, data: Data, limit: int | None, repetitions: int | None
    ) -> Measured:
        return self.measure(part.make(data, limit), repetitions or part.repetitions)

    def rates_of(self, name: str) -> Rates:
        # `engine, way of using it`: unshared work is the same for every way.
        return self._rates[name] if name in self._rates else self._rates[name.split(",")[0]]

    def close(self) -> None:
        for engine in self.ours.values():
            engine.backend.close()

    def methods(self) -> Mapping[str, str]:
        """How each peer is used."""
        return {name: peer.method for name, peer in self.peers.items()}

    def _make(self, name: str, model: Path, threads: int) -> list[Peer]:
        if name == "llama":
            from benchmarks.common.llama_cpp_peer import LlamaCpp

            return [LlamaCpp(model, threads)]
        from benchmarks.common.transformers_batched import BatchedGenerate

        if name == "transformers":
            return [BatchedGenerate(self._transformers(model))]
        if name == "prefilled":
            from benchmarks.common.transformers_prefilled import PrefilledGenerate

            loaded = self._transformers(model)
            return [BatchedGenerate(loaded), PrefilledGenerate(loaded)]
        from benchmarks.common.transformers_continuous import ContinuousBatching

        return [ContinuousBatching(self._transformers(model), sharing) for sharing in (True, False)]

    def _transformers(self, model: Path) -> Any:
        from benchmarks.common.transformers_model import load_transformers

        if not hasattr(self, "_loaded"):
            self._loaded = load_transformers(model)
        return self._loaded


_PARTS = tuple(CALIBRATION.items())


def checked(counted: Counted, recording: Recording, name: str) -> Counted:
    """`counted` if it is the recorded work. Raises ValueError."""
    if counted.completion_tokens != recording.new_tokens:
        raise ValueError(
            f"{name}: {counted.completion_tokens} new tokens instead of {recording.new_tokens}"
        )
    if counted.scored != recording.num_scored:
        raise ValueError(
            f"{name}: {counted.scored} scored choices instead of {recording.num_scored}"
        )
    return counted


def _replay(peer: Peer, measured: Measured) -> float:
    replay = peer.replay(measured.recording)
    check_replay(measured.recording, replay)
    measured.replays[peer.name] = replay
    return replay.seconds
