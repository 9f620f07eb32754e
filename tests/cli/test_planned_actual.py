"""What `sgc explain` plans against what `sgc run` has counted, on a tiny model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.cli import Sgc
from support.local import tiny_folder

import sgc
from sgc_ir.analysis.encoding import Words
from sgc_ir.analysis.forecast import forecast
from sgc_runtime.executor.chatml import ChatML

PROGRAMS = """
import sgc

@sgc.function
def leaf(s, word: str):
    s += "Say " + word + ": " + sgc.gen("a", max_tokens=3, min_tokens=3, ignore_eos=True)
    return s["a"]

@sgc.function
def straight(s, q: str, words: list[str]):
    s += "Question: " + q + "\\nYes or no? " + sgc.select("yes", ["12", "34"])
    s += "\\nIs it\\t" + sgc.select("big", ["7", "8", "9"])
    for f, w in zip(s.fork_each(words), words):
        f += "\\nWord " + w + " is " + sgc.gen("g", choices=["56", "78"]) + " so "
        f += sgc.select("h", ["A", "B"])
    h = leaf(q)
    s += "\\nThen (" + sgc.select("n", ["1", "2"]) + ") " + sgc.select("m", [" x", "y"])

@sgc.function
def race(s, q: str):
    s += "Question: " + q
    forks = s.fork(4)
    for i, f in enumerate(forks):
        n = 2 if i % 2 else 40
        f += f"\\n{i}: " + sgc.gen("a", max_tokens=n, min_tokens=n, ignore_eos=True)
    found = sgc.first(2, forks)
    s += "\\nBest: " + found[0]["a"] + sgc.select("b", ["1", "2"])
"""
ROWS = [{"q": "why?", "words": ["one", "two"]}, {"q": "why not?", "words": []}]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("tiny"))


def compared(sgc_cli: Sgc, model: Path, folder: Path, name: str, rows: Any) -> list[Any]:
    """Of each node what was counted, and what was planned."""
    (folder / "programs.py").write_text(PROGRAMS)
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    common = (f"{folder / 'programs.py'}:{name}", "--inputs", folder / "rows.jsonl")
    flags = ("--model", model, "--backend", "local", "--kv-tokens", "2000", "--stats")
    ran = sgc_cli("run", *common, *flags, folder / "stats.json", "--quiet")
    assert ran.code == 0, ran.err
    asked = ("--model", model, "--analyze", folder / "stats.json", "--format", "json")
    found = json.loads(sgc_cli("explain", *common, *asked).out)
    return list(zip(found["actual"], found["nodes"], strict=True))


def test_prompts_without_open_ends_are_counted_alike(
    sgc_cli: Sgc, model: Path, tmp_path: Path
) -> None:
    """Also where a select encodes blanks before it with its choices."""
    nodes = compared(sgc_cli, model, tmp_path, "straight", ROWS)
    assert len(nodes) == 7
    for actual, planned in nodes:
        assert planned["calls"] == [actual["calls"]] * 2
        assert planned["prompt_tokens"][0] <= actual["prompt_tokens"], planned
        assert actual["prompt_tokens"] <= planned["prompt_tokens"][1], planned
        if planned["name"] in ("yes", "big", "a", "g"):  # nothing before was of open length
            assert planned["prompt_tokens"] == [actual["prompt_tokens"]] * 2


@sgc.function
def part(s, word: str):  # type: ignore[no-untyped-def]
    s += "Say " + word + ": " + sgc.gen("a", max_tokens=3)
    if len(word) > 3:
        s += sgc.gen("b", max_tokens=4)
    return s["a"]


@sgc.function
def one_of_many(s, words: list[str], k: int):  # type: ignore[no-untyped-def]
    s += "chosen: " + sgc.first(k, [part(word) for word in words])[0]


def test_of_each_node_the_fewest_calls_are_certain() -> None:
    rows = [{"words": ["one", "two", "three"], "k": 2}, {"words": ["four", "fives"], "k": 1}]
    graph = one_of_many.compile().graph
    found = [forecast(graph, [(0, row)], Words(), ChatML()).nodes for row in rows]
    calls = [{name: tuple(n.calls) for (_, _, name), n in nodes.items()} for nodes in found]
    assert calls == [{"a": (2, 3), "b": (0, 1)}, {"a": (1, 2), "b": (1, 2)}]


def test_what_a_race_cuts_off_is_not_certain(sgc_cli: Sgc, model: Path, tmp_path: Path) -> None:
    rows = [{"q": "why?"}, {"q": "who"}]
    (branch, planned), (last, planned_last) = compared(sgc_cli, model, tmp_path, "race", rows)
    assert planned["calls"] == [4, 8]
    assert branch["outside"] == last["outside"] == []
    assert planned["output_tokens"] == [8, 168]
    assert planned_last["calls"] == [2, 2]
