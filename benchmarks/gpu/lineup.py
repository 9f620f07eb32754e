"""The engines of `gpu_peers`, one after another on the same GPU, each in processes of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from benchmarks.gpu.child import Child, EngineFailed
from benchmarks.gpu.kv_pools import kv_pool_tokens
from benchmarks.gpu.peer_report import OURS, Figures, figures
from benchmarks.gpu.works import PeerPart, Work

_IMPORT_S = 120.0
_START_S = 200.0
_WORK_S = 90.0
_WARM_UP_IDS = 8
_ROOT = Path(__file__).resolve().parents[2]
_ROOMS = (_ROOT, _ROOT / "ir", _ROOT / "runtime", _ROOT / "kernels")


@dataclass(frozen=True, slots=True)
class Entrant:
    """An engine in one set-up.

    Attributes:
        name: in results; `sgc` is ours.
        kind: `sgc`, `sglang` or `vllm`.
        options: what it is started with.
        only_constrained: another grammar back end, which only changes constrained parts.
        reserve_s: seconds that it needs, its start included: what is kept free for it.
    """

    name: str
    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    only_constrained: bool = False
    reserve_s: float = 0.0

    def parts(self, parts: Sequence[PeerPart]) -> list[PeerPart]:
        """Those that it does."""
        return [part for part in parts if part.constrained or not self.only_constrained]


# Both start at the same time, so neither may take what it finds; 128 rows need no more.
_SMALL_SGLANG = {
    "cuda_graph_max_bs_decode": 128,
    "max_total_tokens": 80_000,
    "mem_fraction_static": 0.8,
}
_SMALL_VLLM = {"kv_cache_memory_bytes": 12 << 30, "gpu_memory_utilization": 0.4}
ENTRANTS = {
    entrant.name: entrant
    for entrant in (
        Entrant(OURS, "sgc"),
        Entrant("sglang", "sglang", {"grammar_backend": "xgrammar"}, reserve_s=130.0),
        Entrant(
            "vllm", "vllm", {"structured_outputs_config": {"backend": "xgrammar"}}, reserve_s=145.0
        ),
        Entrant(
            "sglang, llguidance",
            "sglang",
            {"grammar_backend": "llguidance", **_SMALL_SGLANG},
            only_constrained=True,
            reserve_s=60.0,
        ),
        Entrant(
            "vllm, guidance",
            "vllm",
            {"structured_outputs_config": {"backend": "guidance"}, **_SMALL_VLLM},
            only_constrained=True,
            reserve_s=28.0,
        ),
    )
}


class Board(Protocol):
    """Takes results as they come."""

    def about(self, engine: str, facts: dict[str, Any]) -> None:
        """An engine has started: its name, settings, seconds."""
        ...

    def keep(self, engine: str, part: PeerPart, found: Figures | str) -> None:
        """A part's figures, or why there are none."""
        ...


def groups(entrants: Sequence[Entrant]) -> list[list[Entrant]]:
    """Each alone, but those that only change constrained parts: they start side by side."""
    alone = [[entrant] for entrant in entrants if not entrant.only_constrained]
    others = [entrant for entrant in entrants if entrant.only_constrained]
    return [*alone, others] if others else alone


class Lineup:
    """Starts workers, has each engine do the parts, hands every result on at once.

    Args:
        sites: folders of packages by kind of engine.
        scratch: for working directories.
        logs: for what the engines print.
        end: `time.monotonic()` at which all should be over.
        ready: why an engine cannot do a part now, or None; asked when its turn comes.
    """

    def __init__(
        self,
        entrants: Sequence[Entrant],
        sites: Mapping[str, Sequence[Path]],
        scratch: Path,
        logs: Path,
        end: float,
        ready: Callable[[Entrant, PeerPart], str | None],
    ) -> None:
        self.entrants, self._sites, self._end = entrants, sites, end
        self._ready = ready
        self._scratch, self._logs = scratch, logs
        self._workers: dict[str, Child] = {}

    def prepare(self, seconds: float = 120.0, **facts: Any) -> dict[str, Any]:
        """Make the model and measure the ceilings, while all engines' packages are imported."""
        first = self._worker("prepare", OURS)
        first.send("prepare", **facts)
        for entrant in self.entrants:
            worker = self._workers[entrant.name] = self._worker(entrant.name, entrant.kind)
            worker.send("load", kind=entrant.kind)
        found = first.receive(seconds)
        first.close()
        return found

    def run(self, parts: Sequence[PeerPart], model: Path, board: Board) -> None:
        """Let one engine after another do its parts, as far as time goes."""
        for group in groups(self.entrants):
            running = [entrant for entrant in group if self._start(entrant, parts, board)]
            for entrant in running:
                facts = {"kind": entrant.kind, "model": str(model)}
                self._workers[entrant.name].send("start", **facts, options=dict(entrant.options))
            # All of them stand before one is measured.
            running = [entrant for entrant in running if self._started(entrant, parts, board)]
            for entrant in running:
                worker = self._workers[entrant.name]
                for part in entrant.parts(parts):
                    board.keep(entrant.name, part, self._do(worker, entrant, part))
                worker.close()

    def _start(self, entrant: Entrant, parts: Sequence[PeerPart], board: Board) -> bool:
        """Whether its packages are imported and there is time left for it."""
        if self._left(entrant) > 0:
            return self._waited(entrant, _IMPORT_S, parts, board) is not None
        self._give_up(entrant, "left out: no time was left", parts, board)
        return False

    def _started(self, entrant: Entrant, parts: Sequence[PeerPart], board: Board) -> bool:
        about = self._waited(entrant, _START_S, parts, board)
        if about is None:
            return False
        printed = self._workers[entrant.name].printed()
        about["kv_pool_tokens"] = kv_pool_tokens(about["settings"], printed)
        board.about(entrant.name, about)
        return True

    def _waited(
        self, entrant: Entrant, seconds: float, parts: Sequence[PeerPart], board: Board
    ) -> dict[str, Any] | None:
        try:
            return self._workers[entrant.name].receive(seconds)
        except EngineFailed as error:
            self._give_up(entrant, str(error), parts, board)
            return None

    def _give_up(
        self, entrant: Entrant, reason: str, parts: Sequence[PeerPart], board: Board
    ) -> None:
        for part in entrant.parts(parts):
            board.keep(entrant.name, part, reason)
        self._workers[entrant.name].end()

    def close(self) -> None:
        """End whatever is left."""
        for worker in self._workers.values():
            worker.end()

    def _do(self, worker: Child, entrant: Entrant, part: PeerPart) -> Figures | str:
        reason = self._ready(entrant, part)
        if reason is not None or self._left(entrant) <= 0:
            return f"left out: {reason or 'no time was left'}"
        try:
            return figures(part, self._runs(worker, entrant, part))
        except EngineFailed as error:
            return str(error)

    def _runs(self, worker: Child, entrant: Entrant, part: PeerPart) -> list[dict[str, Any]]:
        """Timed runs; every engine gets the same prompts."""

        def once(work: Work, turn: int) -> dict[str, Any]:
            seed = f"{part.name} {turn}"
            return worker.ask("run", _WORK_S, work=work.to_dict(), seed=seed)

        once(warm_up(part), -1)
        before = [once(part.first, -2 - i)["seconds"] for i in range(3) if part.first]
        runs = []
        for turn in range(part.repetitions):
            run = once(part.work, turn)
            if part.first is not None:
                run["seconds"] -= min(before)
                run["new_tokens"] -= part.first.new * part.first.rows
            runs.append(run)
            if self._left(entrant) < run["seconds"]:
                break
        return runs

    def _left(self, entrant: Entrant) -> float:
        """Seconds until those behind need theirs."""
        behind = self.entrants[self.entrants.index(entrant) + 1 :]
        needed = sum(other.reserve_s for other in behind)
        return self._end - time.monotonic() - needed

    def _worker(self, name: str, kind: str) -> Child:
        plain = name.replace(", ", "-")
        sites = _ROOMS if kind == OURS else self._sites[kind]
        # Ours keeps masks on disk: those of an earlier run would serve this one.
        variables = {"SGC_CACHE": str(self._scratch / f"{plain}-kept")} if kind == OURS else {}
        return Child(sites, self._logs / f"{plain}.log", self._scratch / plain, variables)


def warm_up(part: PeerPart) -> Work:
    """What every engine does once before the clock, whichever it is: constrained parts and
    programs whole, of the others all prompts with a few ids each."""
    if part.constrained or part.work.program is not None:
        return part.work
    return replace(part.work, new=min(part.work.new, _WARM_UP_IDS))
