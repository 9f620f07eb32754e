"""The engine in virtual time below the real executor: exact, repeatable, and true to results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.tokenizer import KINDS, build_pair

import sgc
from benchmarks.common.simulated_engine import SimulatedBackend, drive
from benchmarks.common.simulated_runner import StepCost
from benchmarks.common.simulated_script import WordScript, recorded_texts
from sgc.program import Program
from sgc_runtime.engine.config import EngineConfig
from sgc_runtime.engine.turns import bound
from sgc_runtime.executor.loop import run_sync
from sgc_runtime.executor.seeds import node_seed
from sgc_runtime.tokenizer.tokenizer import Tokenizer

HEAD = "answer the question: what is the capital of France? Paris is the capital of France. "
COLD = "naïve café " * 12
POLICIES: list[dict[str, Any]] = [
    {"order": "fcfs", "priorities": False, "claims": 0.0, "hints": False},
    {"order": "lpm", "priorities": False, "claims": 0.0, "hints": False},
    {"hints": True},
]


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    kind = next(k for k in KINDS if k.name == "smollm")
    return build_pair(kind, tmp_path_factory.mktemp("smollm")).ours


@sgc.function
def one_call(s: Any, text: str, length: int) -> Any:
    s += text
    s += sgc.gen("reply", max_tokens=length, temperature=0.7)
    return s["reply"]


@sgc.function
def branches(s: Any, question: str) -> Any:
    s += sgc.user(question)
    forks = s.fork(3)
    for f in forks:
        f += sgc.assistant(sgc.gen("idea", max_tokens=20, temperature=0.7))
        f += sgc.user("quick brown fox")
        f += sgc.assistant(sgc.gen("check", max_tokens=10, temperature=0.7))
    s += sgc.user("\n".join(f["check"] for f in forks))
    s += sgc.assistant(sgc.select("best", ["dog", "fox", "lazy"]))
    return [s["best"], *[f["idea"] for f in forks]]


def simulate(
    vocabulary: Tokenizer,
    program: Program,
    rows: Sequence[dict[str, Any]],
    pool: int,
    parallel: int = 64,
    recorded: dict[int, str] | None = None,
    **settings: Any,
) -> tuple[list[Any], SimulatedBackend]:
    """Values of all rows, and the backend behind the run."""
    config = EngineConfig(kv_tokens=pool, **settings)
    script = WordScript(vocabulary, full=False, recorded=recorded)
    backend = SimulatedBackend(vocabulary, script, StepCost(), config)
    job = program.job({"backend": backend, "mode": "compiled", "hints": config.hints})
    starts = [partial(job.row, i, program.arguments((), row)) for i, row in enumerate(rows)]
    states = run_sync(drive(backend, starts, parallel))
    for state in states:
        assert state.error() is None, state.error()
    core = backend.loaded.core
    assert core.cache.referenced == 0
    core.cache.check()
    return [state.value for state in states], backend


def test_figures_of_two_calls_worked_out_by_hand(vocabulary: Tokenizer) -> None:
    texts = [HEAD, HEAD + "dog"]
    rows = [{"text": text, "length": 1} for text in texts]
    ids = [len(vocabulary.encode(text)) for text in texts]
    _, backend = simulate(vocabulary, one_call, rows, 500, parallel=1)
    stats, work = backend.stats(), backend.loaded.runner.work
    assert stats["prompt_tokens"] == sum(ids)
    assert work.prompt_tokens == sum(ids) - stats["cached_tokens"]
    assert stats["cached_tokens"] >= ids[0] - 2  # the end may be cut into other tokens
    assert work.steps == 2
    cost = StepCost()
    assert backend.loaded.runner.now == pytest.approx(
        2 * cost.step + cost.prompt_token * work.prompt_tokens
    )


def test_runs_are_repeatable(vocabulary: Tokenizer) -> None:
    rows = [{"question": f"{HEAD} {n}"} for n in range(8)]
    runs = [simulate(vocabulary, branches, rows, 400) for _ in range(2)]
    assert runs[0][0] == runs[1][0]
    first, second = (backend for _, backend in runs)
    assert first.loaded.runner.work == second.loaded.runner.work
    assert first.loaded.runner.now == second.loaded.runner.now
    assert first.stats() == second.stats()


def test_no_policy_and_no_pool_changes_a_result(vocabulary: Tokenizer) -> None:
    rows = [{"question": f"{n} {HEAD}"} for n in range(8)]
    expected, _ = simulate(vocabulary, branches, rows, 100_000)
    for pool in (250, 600):
        for settings in POLICIES:
            assert simulate(vocabulary, branches, rows, pool, **settings)[0] == expected


def test_what_is_computed_again_has_a_cause(vocabulary: Tokenizer) -> None:
    rows = [{"question": f"{n} {HEAD}"} for n in range(8)]
    _, roomy = simulate(vocabulary, branches, rows, 100_000)
    assert sum(roomy.loaded.core.finder.causes.to_dict().values()) <= 2 * len(rows)
    for settings in POLICIES:
        _, backend = simulate(vocabulary, branches, rows, 300, **settings)
        again = backend.loaded.core.finder.causes
        more = backend.loaded.runner.work.prompt_tokens - roomy.loaded.runner.work.prompt_tokens
        explained = again.retracted + again.own + again.others + again.beside
        assert explained == pytest.approx(more, abs=3 * len(rows))


def test_with_hints_nothing_is_retracted_and_less_computed(vocabulary: Tokenizer) -> None:
    rows = [{"question": f"{n} {HEAD}"} for n in range(12)]
    found = {}
    for name, settings in zip(("fcfs", "lpm", "hints"), POLICIES, strict=True):
        _, backend = simulate(vocabulary, branches, rows, 300, **settings)
        found[name] = backend.loaded.runner.work.prompt_tokens
        if name == "hints":
            assert backend.stats()["retractions"] == 0
    assert found["hints"] < found["lpm"]


def adversary(vocabulary: Tokenizer, interval: int, **settings: Any) -> SimulatedBackend:
    """Well-cached requests come all the time, and a cold one among them."""
    rows = [{"text": f"{HEAD}{n}", "length": 6} for n in range(250)]
    rows.insert(30, {"text": COLD, "length": 2})
    _, backend = simulate(
        vocabulary,
        one_call,
        rows,
        300,
        parallel=16,
        max_running=4,
        turn_tokens=interval,
        reserve=1.0,
        **settings,
    )
    assert len(backend.loaded.core.served) == len(rows)
    return backend


@pytest.mark.parametrize("hints", [False, True])
@pytest.mark.parametrize("order", ["lpm", "dfs", "fcfs"])
def test_nobody_waits_longer_than_the_bound(vocabulary: Tokenizer, order: str, hints: bool) -> None:
    backend = adversary(vocabulary, 60, order=order, hints=hints)
    assert backend.stats()["retractions"] == 0
    for call in backend.loaded.core.served:
        assert call.waited <= bound(call.older, 0, 60, 300)


def test_without_turns_the_cold_one_comes_last(vocabulary: Tokenizer) -> None:
    backend = adversary(vocabulary, 10**9, order="lpm", hints=True)
    cold = vocabulary.encode(COLD)
    place = [call.prompt.tolist() for call in backend.loaded.core.served].index(cold)
    assert place > 230


def test_recorded_texts_are_said_again(vocabulary: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    lines = [
        {"kind": "header"},
        {"kind": "gen", "row": 1, "node": "g0", "text": ["lazy dog"], "params": {"seed": None}},
        {"kind": "select", "row": 0, "node": "g1", "text": ["fox"], "params": {}},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    texts = recorded_texts(path)
    assert texts == {node_seed(0, 1, "g0", 0): "lazy dog"}
    rows = [{"text": HEAD, "length": 40}, {"text": HEAD, "length": 40}]
    values, _ = simulate(vocabulary, one_call, rows, 500, recorded=texts)
    assert values[1] == "lazy dog"
    assert values[0] != "lazy dog"


def test_a_row_that_fails_is_told(vocabulary: Tokenizer) -> None:
    async def broken() -> None:
        raise ValueError("out of paper")

    script = WordScript(vocabulary)
    backend = SimulatedBackend(vocabulary, script, StepCost(), EngineConfig(kv_tokens=100))
    with pytest.raises(ValueError, match="out of paper"):
        run_sync(drive(backend, [broken], 1))
