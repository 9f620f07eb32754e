"""Runs in the order of a plan compute the fewest prompt tokens that any order and cache allow.

The executor, scheduler, queue and tree are the product's own, in virtual time; the pool holds the
longest request, or little more.
"""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.local import WORDS
from support.tokenizer import KINDS, build_pair

import sgc
from benchmarks.common.optimum import fewest_in_any_order
from benchmarks.common.simulated_engine import SimulatedBackend, SimulatedLoaded, drive
from benchmarks.common.simulated_runner import StepCost
from benchmarks.common.simulated_script import WordScript
from sgc.planning import InPlanOrder, RowReader
from sgc_runtime.engine.config import EngineConfig
from sgc_runtime.executor.loop import run_sync
from sgc_runtime.tokenizer.tokenizer import Tokenizer


@sgc.function
def asks(s: Any, lesson: str, topic: str, question: str) -> Any:
    s += "Read.\n" + lesson + topic + question
    s += sgc.gen("answer", max_tokens=6)


@sgc.function
def chooses(s: Any, lesson: str, topic: str, question: str) -> Any:
    s += "Read.\n" + lesson + topic + question
    s += sgc.select("choice", ["the dog", "Paris"])


PROGRAMS = (asks, chooses)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    kind = next(kind for kind in KINDS if kind.name == "smollm")
    return build_pair(kind, tmp_path_factory.mktemp("tokenizer")).ours


def table(seed: int, count: int) -> list[dict[str, str]]:
    rng = random.Random(seed)

    def text(words: int) -> str:
        return " ".join(rng.choices(WORDS, k=words)) + "\n"

    lessons = [text(rng.randrange(10, 40)) for _ in range(3)]
    topics = [text(8) for _ in range(3)]
    return [
        {"lesson": rng.choice(lessons), "topic": rng.choice(topics), "question": text(5)}
        for _ in range(count)
    ]


def served(
    program: sgc.Program,
    rows: list[dict[str, str]],
    tokenizer: Tokenizer,
    pool: int,
    parallel: int = 1,
    hints: bool = True,
) -> SimulatedLoaded:
    config = EngineConfig(kv_tokens=pool, hints=hints)
    backend = SimulatedBackend(tokenizer, WordScript(tokenizer), StepCost(), config)
    job = program.job({"backend": backend, "mode": "compiled", "hints": hints})
    values = [program.arguments((), row) for row in rows]
    reader = RowReader(program.compile().graph, backend, job.defaults.params)
    plan = InPlanOrder(enumerate(values), lambda row: reader.facts(*row), None, None, parallel)
    starts = [partial(job.row, *row, shared_chars=shared) for row, shared in plan]
    run_sync(drive(backend, starts, parallel))
    return backend.loaded


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(PROGRAMS),
    st.integers(0, 10_000),
    st.integers(2, 14),
    st.sampled_from([1.0, 1.3, 2.0]),
    st.booleans(),
)
def test_one_after_another_rows_compute_the_least(
    tokenizer: Tokenizer, program: sgc.Program, seed: int, count: int, size: float, hints: bool
) -> None:
    rows = table(seed, count)
    longest = served(program, rows, tokenizer, 1_000_000).core.longest
    found = served(program, rows, tokenizer, int(size * longest), hints=hints)
    assert found.runner.work.prompt_tokens == fewest_in_any_order(found.core.served)


def test_side_by_side_they_compute_hardly_more(tokenizer: Tokenizer) -> None:
    computed = least = 0
    for seed in range(12):
        rows = table(seed, 12)
        pool = 2 * served(asks, rows, tokenizer, 1_000_000).core.longest
        found = served(asks, rows, tokenizer, pool, parallel=6)
        computed += found.runner.work.prompt_tokens
        least += fewest_in_any_order(found.core.served)
    assert computed <= 1.03 * least
