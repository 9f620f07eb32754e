"""Forecasts against the calls of runs, counted by the engine's own trie of all prompts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.gallery import NAMES, load_program, rows_of
from support.paths import Script

import sgc
from sgc.testing import ScriptedBackend
from sgc_ir.analysis.encoding import Words
from sgc_ir.analysis.forecast import Forecast, Range, forecast
from sgc_runtime.engine.prompt_trie import PromptTrie
from sgc_runtime.executor.chatml import ChatML

NUMBERS = [chr(0x4E00 + n) * 4 for n in range(100)]  # all of four characters, none shared


class Characters:
    """One token a character, so that borders of pieces change nothing."""

    def encode(self, text: str, start: bool) -> list[int]:
        return [ord(c) for c in text]

    def scored(self, text: str, choices: tuple[str, ...], start: bool) -> None:
        return None


class Different:
    """Chooses what was not chosen before, so that no text is shared by chance."""

    def __init__(self) -> None:
        self.calls = 0

    def select(self, prompt: str, choices: Any) -> list[float]:
        self.calls += 1
        return [0.0 if i == self.calls else -1.0 for i in range(len(choices))]


def counted(program: Any, rows: list[dict[str, Any]]) -> tuple[int, int, int]:
    """Calls, prompt characters, and those that a perfect cache computes, of a real run."""
    backend = ScriptedBackend(lambda prompt, params: "x", select=Different().select)
    for state in program.run_batch(rows, backend=backend, seed=1, parallel=1):
        assert state.error() is None
    trie, total = PromptTrie(1 << 40), 0
    for call in backend.calls:
        ids = np.array([ord(c) for c in call["prompt"]], np.int32)
        total += len(ids)
        trie.add_prompt(ids)
        made = np.array([ord(c) for c in call["prompt"] + call["result"]], np.int32)
        trie.add_made(made, len(ids))
    rate = trie.optimal_hit_rate()
    assert rate is not None
    return len(backend.calls), total, round((1 - rate) * total)


def told(program: Any, rows: list[dict[str, Any]], encoding: Any = None) -> Forecast:
    graph = program.compile().graph
    return forecast(graph, enumerate(rows), encoding or Characters(), ChatML())


@sgc.function
def leaf(s, topic: str):
    s += "Name a number for " + topic + ": " + sgc.gen("n", choices=NUMBERS)
    return s["n"]


@sgc.function
def tree(s, q: str, topics: list[str]):
    s += sgc.system("Pick numbers.")
    s += sgc.user("Question: " + q)
    forks = s.fork_each(topics)
    for f, topic in zip(forks, topics, strict=True):
        f += sgc.user("Think of " + topic)
        f += sgc.assistant(sgc.gen("a", choices=NUMBERS))
        for b in f.fork(2):
            b += sgc.user("and again")
            b += sgc.assistant(sgc.gen("b", choices=NUMBERS))
    s += sgc.user("Numbers: " + ", ".join(f["a"] for f in forks))
    s += sgc.assistant(sgc.gen("c", choices=NUMBERS))
    return s["c"]


@sgc.function
def chain(s, q: str, k: int):
    s += "Play. " + q
    for _ in range(k):
        s += " next " + sgc.gen("x", choices=NUMBERS)
        s += sgc.gen("y", choices=NUMBERS)


@sgc.function
def calls_others(s, q: str):
    first, second = leaf(q), leaf(q + " again")
    s += "Sum of " + first["n"] + " and " + second["n"] + ": " + sgc.gen("z", choices=NUMBERS)


TREE_ROWS = [
    {"q": "why", "topics": ["cats", "cars"]},
    {"q": "when", "topics": ["cats"]},
    {"q": "why", "topics": ["cars", "cows", "cats"]},
]
EXACT: list[tuple[Any, list[dict[str, Any]]]] = [
    (tree, TREE_ROWS),
    (chain, [{"q": "ab", "k": 3}, {"q": "abc", "k": 1}, {"q": "x", "k": 0}]),
    (calls_others, [{"q": "a"}, {"q": "b"}, {"q": "a b"}]),
]


@pytest.mark.parametrize(("program", "rows"), EXACT, ids=["tree", "chain", "sub-programs"])
def test_with_outputs_of_known_length_a_forecast_is_exact(program: Any, rows: Any) -> None:
    found = told(program, rows)
    calls, prompt, computed = counted(program, rows)
    assert found.least == found.most
    assert found.bounded
    case = found.most
    assert (case.calls, case.prompt_tokens, case.computed_tokens) == (calls, prompt, computed)
    cached = sum((node.cached_tokens for node in found.nodes.values()), Range(0, 0))
    assert cached == Range(prompt - computed, prompt - computed)


@pytest.mark.parametrize("name", NAMES)
def test_runs_of_the_gallery_lie_within_their_bounds(name: str) -> None:
    program, rows = load_program(name), rows_of(name)[:4]
    found = told(program, rows, Words())
    for number in range(3):
        script = Script(number, ("yes", "two words", "a", "7 8 9"))
        backend = ScriptedBackend(script.reply, select=script.select)
        states = program.run_batch(rows, backend=backend, seed=5)
        calls = sum((node.calls for node in found.nodes.values()), Range(0, 0))
        failed = any(state.error() is not None for state in states)
        assert calls.high is not None
        assert failed or calls.low <= len(backend.calls)
        assert len(backend.calls) <= calls.high
        output = sum((node.output_tokens for node in found.nodes.values()), Range(0, 0))
        assert output.holds(sum(state.usage.completion_tokens for state in states))
        longest = max(len(call["prompt"].split()) for call in backend.calls)
        assert found.longest_request.high is None or longest <= found.longest_request.high + 8


def test_shared_tokens_readers_and_the_order_of_rows() -> None:
    rows = [{"topic": t} for t in ("ape", "bee", "ape", "bat")]
    found = told(leaf, rows)
    (node,) = found.nodes.values()
    assert node.readers == 4
    assert found.static_prefix == len("Name a number for ")
    assert node.shareable_tokens == 2 * len("Name a number for ape: ") + 2 * len(
        "Name a number for b"
    )
    assert found.row_order == (0, 2, 1, 3)
    prompt, output = len("Name a number for ape: "), 4
    assert found.longest_request == (prompt, prompt + 0)
    assert found.instance_kv == (prompt, prompt + output)


@sgc.function
def without_bound(s, q: str):
    s += q + sgc.gen("n", dtype="int", max_tokens=3)
    for _ in range(s["n"]):
        s += "again" + sgc.gen("x", max_tokens=3)


def test_what_has_no_bound_is_said_so() -> None:
    found = told(without_bound, [{"q": "Q"}])
    nodes = list(found.nodes.values())
    assert not found.bounded
    assert nodes[0].calls == (1, 1)
    assert nodes[1].calls == (0, None)
    assert nodes[1].output_tokens == (0, None)
    assert found.instance_kv.high is None


@sgc.function
def broken(s, q: str):
    s += str(int(q)) + sgc.gen("a", max_tokens=3)


def test_a_row_that_fails_in_any_case_is_named() -> None:
    found = told(broken, [{"q": "1"}, {"q": "x"}])
    assert list(found.failures) == [1]
    assert "ValueError" in found.failures[1]
    assert found.most.calls == 1
