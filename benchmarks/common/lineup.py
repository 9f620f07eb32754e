"""The engines that a run compares, what they did in a part, and their rates of unshared work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common.data import Data
from benchmarks.common.goals import Rates, rates, rates_of_like_work
from benchmarks.common.parts import CALIBRATION, Part
from benchmarks.common.peer import Peer, PeerMissing, Replay, check_replay
from benchmarks.common.recording import Recording
from benchmarks.common.sgc_engine import Counted, Job, SgcEngine
from benchmarks.common.timing import Samples, interleave
from benchmarks.common.unshared_twin import unshared_twin

OURS: dict[str, dict[str, Any]] = {
    "sgc": {},
    "sgc, dense bfloat16": {"weights": "dense"},
}  # the first one is judged
KV_TOKENS = 24_000
TWIN_ROWS, TWIN_TOKENS = 32, 32
CALIBRATED, LIKE = "calibration", "like_for_like"


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is run.

    Attributes:
        repetitions: of each engine, at most.
        budget_s: for the repetitions of one engine; one there always is.
        warm_up: rows that each engine runs before; all when None.
        counts: whether ours is also run once with counters on it.
    """

    repetitions: int
    budget_s: float
    warm_up: int | None
    counts: bool = True


@dataclass(slots=True)
class Measured:
    """One workload on all engines.

    Attributes:
        warm_up: how much every engine ran before.
        counted: what ours did, by engine; empty where it was not looked at.
        replays: the last replay of each peer.
        samples: times by engine; a slow one has fewer repetitions than others.
        missing: why an engine does not take part.
        rates: of unshared work, by reading and engine.
        took_s: seconds of all that was run for the part, and for unshared work.
    """

    recording: Recording
    warm_up: str
    counted: dict[str, Counted] = field(default_factory=dict)
    replays: dict[str, Replay] = field(default_factory=dict)
    samples: dict[str, Samples] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    rates: dict[str, dict[str, Rates]] = field(default_factory=dict)
    took_s: dict[str, float] = field(default_factory=dict)

    def computed(self, name: str) -> int:
        """Tokens that an engine put through its model; of ours, where nothing was counted, those
        that it must."""
        if name in self.counted:
            return self.counted[name].computed_tokens
        if name in self.replays:
            return self.replays[name].computed_tokens or 0
        return sum(self.recording.must_compute())


class Lineup:
    """All engines, loaded once.

    Args:
        names: of `peer.PEERS`.
        threads: of each engine.
        engine_s: seconds of an engine's repetitions of one part; one repetition there always is.
    """

    def __init__(self, model: Path, names: Iterable[str], threads: int, engine_s: float) -> None:
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
        self._engine_s = engine_s
        self._calibrated: dict[str, Rates] = {}
        self._asked: set[str] = set()  # peers that calibration has been asked for

    def measure_part(
        self, part: Part, data: Data, limit: int | None, repetitions: int | None
    ) -> Measured:
        """Times of a part, and where its goal follows from sharing, the rates of unshared work of
        every engine that took part: of calibration workloads that are the same for all parts,
        and of this part's unshared twin."""
        effort = Effort(repetitions or part.repetitions, self._engine_s, part.warm_up)
        begin = time.monotonic()
        measured = self._measure(part.make(data, limit), self.peers, effort)
        measured.took_s["part"] = time.monotonic() - begin
        if part.shares:
            fixed = tuple(name for name, _ in part.goals)
            peers = [name for name in measured.replays if not name.startswith(fixed)]
            # The part itself has warmed every engine up.
            small = Effort(repetitions or 2, self._engine_s / 12, 2, counts=False)
            measured.rates[CALIBRATED] = self._calibration(peers, data, limit, small)
            measured.rates[LIKE] = self._like_work(measured.recording, peers, limit, small)
            measured.took_s["unshared"] = time.monotonic() - begin - measured.took_s["part"]
        return measured

    def _measure(self, job: Job, peers: Iterable[str], effort: Effort) -> Measured:
        """Record the run, warm every engine up, then time them in turn.

        Raises ValueError when an engine did other work than was recorded.
        """
        sample = job.head(effort.warm_up)
        first = next(iter(self.ours.values()))
        small = first.record(sample)
        warm = f"{len(sample.rows)} of {len(job.rows)} rows"
        measured = Measured(first.record(job), warm)
        works: dict[str, Callable[[], float]] = {}
        for name, engine in self.ours.items():
            engine.run(sample)
            works[name] = partial(engine.time, job)
            if effort.counts:
                measured.counted[name] = checked(engine.count(job), measured.recording, name)
        for name in peers:
            try:
                check_replay(small, self.peers[name].replay(small))
                works[name] = partial(_replay, self.peers[name], measured)
            except PeerMissing as reason:
                measured.missing[name] = str(reason)
        budget = effort.budget_s
        measured.samples = interleave(works, effort.repetitions, budget, (PeerMissing,))
        return measured

    def _calibration(
        self, peers: Iterable[str], data: Data, limit: int | None, effort: Effort
    ) -> dict[str, Rates]:
        """Rates of the calibration workloads; each engine is measured once in a run."""
        wanted = [name for name in peers if name not in self._asked]
        if wanted or not self._calibrated:
            self._asked.update(wanted)
            prompts, chats = (
                self._measure(part.make(data, limit), wanted, effort)
                for part in CALIBRATION.values()
            )
            for name in prompts.samples.keys() & chats.samples.keys():
                taken = prompts.samples[name].median, chats.samples[name].median
                found = rates(prompts.recording, taken[0], chats.recording, taken[1])
                self._calibrated.setdefault(name, found)
        return dict(self._calibrated)

    def _like_work(
        self, recording: Recording, peers: list[str], limit: int | None, effort: Effort
    ) -> dict[str, Rates]:
        """Rates of a part's unshared twin."""
        engine = next(iter(self.ours.values()))
        text_of = partial(engine.backend.tokenizer.decode, start=False)
        more = TWIN_TOKENS if limit is None else min(TWIN_TOKENS, 8 * limit)
        twin = unshared_twin(recording, text_of, TWIN_ROWS, more)
        first = self._measure(twin.first, peers, effort)
        whole = twin.all and self._measure(twin.all, peers, effort)
        return {
            name: rates_of_like_work(
                first.computed(name),
                found.median,
                twin.decoded,
                whole.samples[name].median if whole else None,
            )
            for name, found in first.samples.items()
        }

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


def rate_of(rates: Mapping[str, Rates], name: str) -> Rates:
    """The rates of an engine; unshared work is the same for every `engine, way of using it`."""
    return rates[name] if name in rates else rates[name.split(",")[0]]


def _replay(peer: Peer, measured: Measured) -> float:
    try:
        replay = peer.replay(measured.recording)
    except PeerMissing as reason:
        measured.missing[peer.name] = str(reason)
        measured.replays.pop(peer.name, None)
        raise
    check_replay(measured.recording, replay)
    measured.replays[peer.name] = replay
    return replay.seconds
