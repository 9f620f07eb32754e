"""Multi-turn chats: how many, how long, and that every turn has all earlier ones in its prompt."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.suite_runs import builtin_rows, run_both

from sgc.eval.registry import find_suite
from sgc.eval.suite import LoadOptions

NOWHERE = Path("no such folder")


@pytest.mark.parametrize(("name", "least", "most"), [("chat-short", 4, 8), ("chat-long", 256, 512)])
def test_lengths_are_those_of_the_published_chats(name: str, least: int, most: int) -> None:
    rows = find_suite(name).load(NOWHERE, LoadOptions())
    assert len(rows) == 20
    for row in rows:
        assert len(row.arguments["questions"]) == len(row.arguments["lengths"]) == 4
        assert all(least <= length <= most for length in row.arguments["lengths"])
        assert all(317 <= len(text) <= 635 for text in row.arguments["questions"])


def test_rows_follow_from_the_seed_and_a_limit_takes_the_first() -> None:
    load = find_suite("chat-short").load
    rows = load(NOWHERE, LoadOptions())
    assert load(NOWHERE, LoadOptions(limit=3)) == rows[:3]
    assert load(NOWHERE, LoadOptions(seed=1)) != rows
    texts = {text for row in rows for text in row.arguments["questions"]}
    assert len(texts) == 80


def test_a_turn_follows_all_earlier_ones_and_does_not_end_early() -> None:
    rows = builtin_rows("chat-short", limit=2)
    records, calls = run_both("chat-short", rows, lambda prompt, params: " a b c d e f g h i")
    assert len(calls) == 8
    assert all(call["params"]["ignore_eos"] for call in calls)
    for row, record in zip(rows, records):
        lengths, questions = row.arguments["lengths"], row.arguments["questions"]
        assert [len(answer.split()) for answer in record["value"]] == lengths
        last = "".join(q + a for q, a in zip(questions, record["value"][:3])) + questions[3]
        assert last in [call["prompt"] for call in calls]
