"""What loses a race leaves the engine at once: its request ends, its memory is free."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

pytest.importorskip("torch")

from support.local import backend, tiny_folder

import sgc
from sgc_runtime.backends.local import LocalBackend


@sgc.function
def say(s, topic: str, tokens: int):
    s += f"The quick brown {topic} "
    s += sgc.gen("text", max_tokens=tokens, ignore_eos=True, temperature=0)
    return s["text"]


@sgc.function
def race_runs(s):
    return sgc.first(1, [say("fox", 700), say("dog", 3), say("cat", 700)])


@sgc.function
def race_branches(s):
    s += "The quick brown fox jumps over the lazy dog."
    forks = s.fork(3)
    for fork, tokens in zip(forks, [700, 700, 3]):
        fork += f" {tokens}" + sgc.gen("text", max_tokens=tokens, ignore_eos=True, temperature=0)
    return sgc.first(1, forks)


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBackend]:
    with backend(tiny_folder(tmp_path_factory.mktemp("model"))) as made:
        yield made


@pytest.mark.parametrize("mode", ["interpreted", "compiled"])
@pytest.mark.parametrize("program", [race_runs, race_branches])
def test_losers_leave_the_engine(owner: LocalBackend, program: sgc.Program, mode: str) -> None:
    before = owner.stats().get("completion_tokens", 0)
    state = program.run(backend=owner, mode=mode)
    assert len(state.value) == 1
    assert state.usage.completion_tokens == 3
    made = owner.stats()["completion_tokens"] - before
    assert made < 100, "the losers alone would have made 1,400 tokens"
    loaded = owner.engine_now
    assert loaded is not None
    core = loaded.engine.core
    limit = time.monotonic() + 20
    while (core.cache.referenced or core.open) and time.monotonic() < limit:
        time.sleep(0.005)
    assert core.cache.referenced == 0
    assert not core.open
