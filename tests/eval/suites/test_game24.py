"""The game of 24: the recorded search decides the calls, and the small one keeps the rules."""

from __future__ import annotations

import ast
import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from support.suites import builtin_rows, run_suite

from sgc.eval.data import BUILTIN
from sgc_ir.errors import EvalDataError

(LOG,) = (BUILTIN / "tree_of_thought").glob("*game24*.json")
GAMES: list[dict[str, Any]] = json.loads(LOG.read_text("utf-8"))
LINE = re.compile(r"(\S+) ([-+*/]) (\S+) = (\S+) \(left: (.*)\)")


def calculated(text: str) -> Fraction:
    """An expression of numbers, + - * / and brackets, exactly."""

    def value(node: ast.expr) -> Fraction:
        if isinstance(node, ast.Constant):
            return Fraction(str(node.value))
        assert isinstance(node, ast.BinOp)
        left, right = value(node.left), value(node.right)
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        return left * right if isinstance(node.op, ast.Mult) else left / right

    return value(ast.parse(text, mode="eval").body)


def test_the_record_decides_which_calls_are_made() -> None:
    rows = builtin_rows("game24", limit=2)
    ran = [
        run_suite("game24", rows, lambda prompt, params, word=word: f" {word} {len(prompt)}")
        for word in ("sure", "impossible")
    ]
    calls = [sorted((c["prompt"], str(c["params"])) for c in r.calls) for r in ran]
    assert calls[0] == calls[1]
    games = [GAMES[int(row.id)] for row in rows]
    proposals = [sum(len(set(step["new_ys"])) for step in game["steps"]) for game in games]
    assert ran[0].values == proposals
    asked = sum(len(step["ys"]) for game in games for step in game["steps"])
    assert len(calls[0]) == sum(proposals) + asked
    assert sorted({c["params"]["n"] for c in ran[0].calls}) == [1, 3]
    assert not any("sure 1" in prompt or "impossible 1" in prompt for prompt, _ in calls[0])


def test_prompts_end_in_what_is_asked_about() -> None:
    row = builtin_rows("game24")[0]
    first, last = row.arguments["search"][0], row.arguments["search"][-1]
    puzzle = GAMES[0]["steps"][0]["x"]
    assert first["asked"][0].endswith(f"Input: {puzzle}\nPossible next steps:\n")
    left = LINE.fullmatch(GAMES[0]["steps"][0]["new_ys"][0].strip())
    assert left is not None
    assert first["proposed"][0].endswith(f"\n{left[5]}\n")
    assert last["asked"][0].endswith(f"Input: {puzzle}\nSteps:\n{GAMES[0]['steps'][3]['ys'][0]}")
    answer = GAMES[0]["steps"][3]["new_ys"][0].strip().splitlines()[-1]
    assert last["proposed"][0].endswith(f"Input: {puzzle}\n{answer}\nJudge:")


def test_the_small_searches_keep_the_rules_of_the_game() -> None:
    for game in GAMES:
        puzzle = sorted(map(Fraction, game["steps"][0]["x"].split()))
        for step, after in zip(game["steps"], game["steps"][1:]):
            assert step["select_new_ys"] == after["ys"]
        for text, info in zip(game["ys"], game["infos"]):
            numbers = list(puzzle)
            *lines, answer = text.strip().splitlines()
            for line in lines:
                match = LINE.fullmatch(line)
                assert match is not None
                numbers.remove(Fraction(match[1]))
                numbers.remove(Fraction(match[3]))
                numbers.append(Fraction(match[4]))
                assert calculated(f"{match[1]} {match[2]} {match[3]}") == Fraction(match[4])
                assert sorted(numbers) == sorted(map(Fraction, match[5].split()))
            expression, _, result = answer.removeprefix("Answer: ").partition(" = ")
            assert calculated(expression) == Fraction(result)
            assert sorted(map(Fraction, re.findall(r"\d+", expression))) == puzzle
            assert (Fraction(result) == 24) == bool(info["r"])


def test_a_broken_search_is_named_and_a_wrong_file_stops(tmp_path: Path) -> None:
    path = tmp_path / "log_game24.json"
    path.write_text(json.dumps([GAMES[0], {"idx": 1}, {"steps": [{"x": "1 2"}]}, 5]), "utf-8")
    rows = builtin_rows("game24", folder=tmp_path)
    assert [bool(row.problem) for row in rows] == [False, True, True, True]
    assert "log_game24.json" in rows[1].problem
    assert "search 2" in rows[1].problem
    for wrong, cause in (([{}], "'steps'"), ({}, "not a list"), ([1], "'steps'")):
        path.write_text(json.dumps(wrong), "utf-8")
        with pytest.raises(EvalDataError, match=cause):
            builtin_rows("game24", folder=tmp_path)
    path.unlink()
    with pytest.raises(EvalDataError, match=r"game24\*\.json"):
        builtin_rows("game24", folder=tmp_path)
