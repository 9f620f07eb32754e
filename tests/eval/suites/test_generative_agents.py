"""Generative agents: one call a row, by kind."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.suites import builtin_rows, run_suite

from sgc.eval.suites.generative_agents import NEEDED

LIMITS = {
    "poignancy_event": (2, []),
    "generate_event_triple": (20, [")"]),
    "generate_pronunciatio": (6, []),
    "action_location_sector": (10, ["}"]),
    "action_location_object": (5, ["}"]),
}


@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
def test_each_kind_has_its_limit_and_stop_and_says_all_arguments(mode: str) -> None:
    rows = builtin_rows("generative-agents")
    assert set(Counter(row.group for row in rows)) == set(LIMITS)
    ran = run_suite("generative-agents", rows, lambda *_: " park)} and more", mode)
    wanted = {")": "park", "}": "park)"}
    for row, value in zip(rows, ran.values):
        limit, stop = LIMITS[row.group]
        text = "park)} and more" if limit > 2 else "park)} and"
        assert value == (wanted[stop[0]] if stop else text)
    assert len(ran.calls) == len(rows)
    prompts = {call["prompt"]: call["params"] for call in ran.calls}
    for row in rows:
        values = [row.arguments["call"][name] for name in NEEDED[row.group]]
        (params,) = [p for text, p in prompts.items() if _asks(text, row.group, values)]
        assert (params["max_tokens"], params["stop"]) == LIMITS[row.group]
        assert params["temperature"] == 0.0


def _asks(prompt: str, kind: str, values: list[Any]) -> bool:
    ends = {"generate_event_triple": ",", "generate_pronunciatio": "Emoji:"}
    ends |= {"poignancy_event": "Rating:"}
    own = prompt.rpartition("---\n")[2]
    return prompt.endswith(ends.get(kind, "go to: {")) and all(value in own for value in values)


def test_calls_that_cannot_be_made_are_named(tmp_path: Path) -> None:
    lines: list[Any] = [
        {"generate_pronunciatio": {"action": "sleeping"}},
        {"dance": {"action": "x"}},
        {"poignancy_event": {"persona_name": "A", "event": "b"}},
        {"generate_pronunciatio": {"action": 5}},
        ["list"],
        {"a": {}, "b": {}},
    ]
    (tmp_path / "agent_calls.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    rows = builtin_rows("generative-agents", folder=tmp_path)
    problems = [row.problem for row in rows]
    assert problems[0] == ""
    assert all(problems[1:])
    assert "dance is no kind of call" in problems[1]
    assert ":2: " in problems[1]
    assert "persona_iss" in problems[2]


def test_a_sample_holds_every_kind() -> None:
    assert {row.group for row in builtin_rows("generative-agents", limit=5)} == set(LIMITS)
