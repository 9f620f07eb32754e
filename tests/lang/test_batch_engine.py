"""Plans and merged calls on a real engine with a tiny model: the same results, less work."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from support.local import WORDS, backend, tiny_folder

import sgc
from sgc_runtime.backends.local import LocalBackend


@sgc.function
def graded(s: Any, lesson: str, question: str) -> Any:
    s += lesson + question
    s += sgc.gen("short", temperature=0, max_tokens=3)
    s += sgc.gen("free", max_tokens=5)
    forks = s.fork(2)
    for branch, word in zip(forks, ["lazy", "over"], strict=True):
        branch += word + sgc.gen("judged", temperature=0, max_tokens=4)
    s += " ".join(forks[i]["judged"] for i in range(2)) + " answer"
    s += sgc.select("grade", ["Paris", "the capital", "dog"])
    s += sgc.gen("fixed", seed=3, n=2, max_tokens=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("tiny"))


def table(count: int, lessons: int) -> list[dict[str, str]]:
    rng = random.Random(5)
    texts = [" ".join(rng.choices(WORDS, k=200)) + "\n" for _ in range(lessons)]
    questions = [" ".join(rng.choices(WORDS, k=6)) for _ in range(count // 2)]
    return [
        {"lesson": rng.choice(texts), "question": questions[i % len(questions)]}
        for i in range(count)
    ]


def run(folder: Path, rows: list[dict[str, str]], kv_tokens: int, **options: Any) -> Any:
    made: LocalBackend
    with backend(folder, kv_tokens=kv_tokens) as made:
        states = graded.run_batch(rows, backend=made, seed=1, **options)
        assert [state.error() for state in states] == [None] * len(rows)
        views = [(dict(s.vars), s.text(), s.usage.completion_tokens) for s in states]
        return views, dict(made.stats())


def test_a_plan_computes_less_and_changes_nothing(folder: Path) -> None:
    """Lessons alternate, and the cache holds hardly more than one row at a time."""
    rows = table(16, 4)
    before, plain = run(folder, rows, 600, plan=False, parallel=2)
    after, planned = run(folder, rows, 600, parallel=2)
    assert before == after
    lacking = [stats["prompt_tokens"] - stats["cached_tokens"] for stats in (plain, planned)]
    assert lacking[1] < 0.7 * lacking[0], lacking


def test_merged_calls_change_nothing(folder: Path) -> None:
    rows = table(6, 1) * 2
    before, plain = run(folder, rows, 4000)
    after, merged = run(folder, rows, 4000, merge=True)
    assert before == after
    assert merged["prompt_tokens"] < plain["prompt_tokens"]
