"""Text forced across gen, constant and gen: one extend, which computes each of its ids once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.local import backend

import sgc
from sgc_runtime.backends.local import LocalBackend
from sgc_runtime.model.forward import ForwardBatch, KVTensors

TAIL, HEAD = ", over lazy dog", "capital of France "
FIRST: dict[str, Any] = {"regex": f'"[a-z]{{3}}"{TAIL}', "max_tokens": 60, "temperature": 0}
SECOND: dict[str, Any] = {"regex": f'{HEAD}"[a-z]{{2}}"', "max_tokens": 60, "temperature": 0}
RUN = f'"{TAIL} jumps over: {HEAD}'
WAYS = ("jumps", "brown", "quick")
MODES = ("interpreted", "compiled")


class Watched:
    """The model of a backend's engine; notes what each pass computes, id by id."""

    def __init__(self, owner: LocalBackend) -> None:
        owner.load()
        loaded = owner._started().result()
        runner = loaded.engine.core.runner
        self._model, runner.model = runner.model, self
        self._bytes = loaded.vocabulary.token_bytes
        self.passes: list[bytes] = []

    def forward(self, batch: ForwardBatch, kv: KVTensors) -> torch.Tensor:
        self.passes.append(b"".join(self._bytes(int(token)) for token in batch.input_ids))
        return self._model.forward(batch, kv)

    @property
    def text(self) -> str:
        """All that was computed."""
        return b"".join(self.passes).decode()

    @property
    def num_whole_runs(self) -> int:
        """Passes in which all of the run is computed."""
        return sum(RUN.encode() in computed for computed in self.passes)


def num_sampled(owner: LocalBackend) -> int:
    stats = owner.stats()
    sampled: int = stats["completion_tokens"] - stats["forced_tokens"]
    return sampled


@sgc.function
def form(s: Any, heal: bool = False) -> None:
    s += "The fox: " + sgc.gen("first", **FIRST)
    s += " jumps over: " + sgc.gen("second", heal=heal, **SECOND)


@sgc.function
def scored(s: Any) -> None:
    s += "The fox: " + sgc.gen("first", **FIRST)
    s += " jumps over: " + sgc.gen("second", logprobs=True, **SECOND)


@sgc.function
def all_scored(s: Any) -> None:
    s += "The fox: " + sgc.gen("first", logprobs=True, **FIRST)
    s += " jumps over: " + sgc.gen("second", logprobs=True, **SECOND)


@sgc.function
def forked(s: Any) -> None:
    s += "The fox: " + sgc.gen("first", **FIRST)
    branches = s.fork(3)
    for branch, what in zip(branches, WAYS, strict=True):
        branch += f" {what} over: " + sgc.gen("second", **SECOND)
    s += branches[0]["second"] + branches[1]["second"] + branches[2]["second"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("heal", [False, True])
def test_a_run_is_one_extend(folder: Path, mode: str, heal: bool) -> None:
    with backend(folder) as owner:
        watched = Watched(owner)
        text = form.run(heal=heal, backend=owner, mode=mode).text()
        assert len(watched.passes) == num_sampled(owner)
        assert watched.num_whole_runs == 1
        assert text.startswith(watched.text)  # no id twice, and none that nothing follows


@pytest.mark.parametrize("mode", MODES)
def test_a_stream_of_events_changes_nothing(folder: Path, mode: str) -> None:
    with backend(folder) as owner:
        watched = Watched(owner)
        assert sum(1 for _ in form.stream(backend=owner, mode=mode)) > 2
        assert len(watched.passes) == num_sampled(owner)
        assert watched.num_whole_runs == 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("program", "more"), [(scored, 1), (all_scored, 2)], ids=["one", "both"])
def test_log_probabilities_are_waited_for(folder: Path, program: Any, more: int, mode: str) -> None:
    """A gen that asks for them has those of the ids that it ends with, too: a pass more, of which
    what follows is not a part."""
    with backend(folder) as owner:
        watched = Watched(owner)
        text = program.run(backend=owner, mode=mode).text()
        assert len(watched.passes) == num_sampled(owner) + more
        assert watched.num_whole_runs == (program is scored)
        assert text.startswith(watched.text)


@pytest.mark.parametrize("mode", MODES)
def test_branches_compute_what_they_share_once(folder: Path, mode: str) -> None:
    """One of them computes it together with its own part, those of the others are in the same pass
    or, where they come too late for it, follow."""
    with backend(folder) as owner:
        watched = Watched(owner)
        forked.run(backend=owner, mode=mode)
        computed = watched.passes
        shared = next(i for i, data in enumerate(computed) if f'"{TAIL}'.encode() in data)
        assert sum(data.count(TAIL.encode()) for data in computed) == 1
        for what in WAYS:
            own = f" {what} over: {HEAD}".encode()
            assert sum(data.count(own) for data in computed[shared:]) == 1
        assert HEAD.encode() in computed[shared]


def test_without_jumps_the_same_ids_take_a_pass_each(folder: Path) -> None:
    with backend(folder) as owner:
        expected = form.run(backend=owner).text()
    with backend(folder, jump=False) as owner:
        watched = Watched(owner)
        assert form.run(backend=owner).text() == expected
        assert watched.num_whole_runs == 0
        assert len(watched.passes) == owner.stats()["completion_tokens"]
