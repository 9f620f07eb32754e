"""`sgc explain`, and planned against actual."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli import Sgc

PROGRAM = """
import sgc


@sgc.function
def quiz(s, q: str):
    s += "Answer with one word. "
    s += q + " Answer: " + sgc.gen("a", max_tokens=4)
    s += " Sure? " + sgc.select("sure", ["yes", "no"])
"""


@pytest.fixture
def quiz(tmp_path: Path) -> Path:
    path = tmp_path / "quiz.py"
    path.write_text(PROGRAM)
    (tmp_path / "rows.jsonl").write_text('{"q": "One?"}\n{"q": "Two three?"}\n')
    return path


def test_the_table_names_nodes_and_sums(sgc_cli: Sgc, quiz: Path) -> None:
    result = sgc_cli("explain", quiz, "--inputs", quiz.with_name("rows.jsonl"))
    assert result.code == 0
    lines = [line.split() for line in result.out.splitlines()]
    assert lines[1][:5] == ["quiz:", "g0", "a", "2", "13"]
    assert lines[2][:6] == ["quiz:", "g1", "sure", "2", "15", "to"]
    assert "Counted in words" in result.out
    assert "begin of every prompt  4 words" in result.out


def test_json_prices_and_an_artefact(sgc_cli: Sgc, quiz: Path, tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text('["m"]\ninput = 1e6\ncached_input = 0\noutput = 2e6\n')
    artefact = tmp_path / "quiz.sgc"
    assert sgc_cli("compile", quiz, "-o", artefact).code == 0
    rows = quiz.with_name("rows.jsonl")
    options = ("--format", "json", "--prices", prices, "--max-tokens", "9")
    result = sgc_cli("explain", artefact, "--inputs", rows, *options)
    found = json.loads(result.out)
    assert found["total"]["calls"] == [4, 4]
    assert found["total"]["output_tokens"] == [0, 8]
    # Without a cache 13 + 15 words; the first four of the second row are there, and each second
    # call adds "Sure?" alone.
    assert found["least"]["computed_tokens"] == 13 - 4 + 2
    assert found["money"]["m"] == [11.0, 11.0 + 2 * 8]
    first, second = found["nodes"]
    assert first["money"]["m"] == [9.0, 9.0 + 2 * 8]
    assert second["money"]["m"] == [2.0, 2.0]
    assert first["hit_rate"] == [4 / 13, 4 / 13]
    # The longer row: seven words and at most four of the answer; "Sure?" comes behind them.
    assert first["longest_request"] == [7, 11]
    assert second["longest_request"] == found["longest_request"] == [8, 12]
    shown = sgc_cli("explain", artefact, "--inputs", rows, "--prices", prices).out
    assert shown.splitlines()[0].endswith("money, m")
    assert shown.splitlines()[2].endswith("2.0000")
    assert found["row_order"] == [0, 1]


def test_a_run_is_compared_with_its_plan(sgc_cli: Sgc, quiz: Path, tmp_path: Path) -> None:
    stats = tmp_path / "stats.json"
    ran = {"program": "quiz", "node": "g0", "name": "a", "calls": 2, "prompt_tokens": 13}
    other = {"program": "quiz", "node": "g1", "name": "sure", "calls": 3, "prompt_tokens": 16}
    more = {"cached_tokens": 4, "completion_tokens": 0}
    stats.write_text(json.dumps({"nodes": [ran | more, other | more]}))
    rows = quiz.with_name("rows.jsonl")
    options = ("--analyze", stats, "--format", "json")
    result = sgc_cli("explain", quiz, "--inputs", rows, *options)
    first, second = json.loads(result.out)["actual"]
    assert first["outside"] == []
    assert (second["calls"], second["outside"]) == (3, ["calls"])
    shown = sgc_cli("explain", quiz, "--inputs", rows, "--analyze", stats).out
    assert "3 (2)" in shown


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('["m"]\ninput = 1\n', "m has no output"),
        ('["m"]\ninput = 1\noutput = "x"\n', "output is no price"),
        ('["m"]\ninput = 1\noutput = 1\nfoo = 2\n', "unknown field foo"),
        ("m = 3\n", "m is no table"),
        ("[", "--prices"),
    ],
)
def test_a_wrong_price_file_is_refused(
    sgc_cli: Sgc, quiz: Path, tmp_path: Path, text: str, reason: str
) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text(text)
    rows = quiz.with_name("rows.jsonl")
    result = sgc_cli("explain", quiz, "--inputs", rows, "--prices", prices)
    assert result.code == 2
    assert reason in result.err


def test_rows_and_stats_that_do_not_fit_are_refused(
    sgc_cli: Sgc, quiz: Path, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text('{"p": 1}\n')
    result = sgc_cli("explain", quiz, "--inputs", wrong)
    assert result.code == 2
    assert "wrong.jsonl:1: " in result.err
    assert "unknown argument p" in result.err
    assert sgc_cli("explain", quiz, "--inputs", tmp_path / "none.jsonl").code == 2
    rows = quiz.with_name("rows.jsonl")
    assert sgc_cli("explain", quiz, "--inputs", rows, "--analyze", wrong).code == 2


NODE = {"program": "quiz", "node": "g0", "name": "a", "calls": 2, "prompt_tokens": 13}
NODE |= {"cached_tokens": 4, "completion_tokens": 0}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[", "line 1"),
        ("[" * 100_000, "nested too deeply"),
        ('{"nodes": 5}', "has no nodes"),
        ('{"nodes": [3]}', "node 0 has no program"),
        (json.dumps({"nodes": [NODE, NODE | {"name": None}]}), "node 1 has no name"),
        (json.dumps({"nodes": [NODE | {"calls": "2"}]}), "node 0 has no calls"),
        (json.dumps({"nodes": [NODE | {"calls": -1}]}), "node 0 has no calls"),
        (json.dumps({"nodes": [NODE | {"decode_seconds": "x"}]}), "no decode_seconds"),
        (json.dumps({"nodes": [NODE], "seconds": "1"}), "its seconds"),
        ('{"nodes": [], "seconds": NaN}', "NaN is not JSON"),
    ],
)
@pytest.mark.parametrize("option", ["--analyze", "--rates"])
def test_a_wrong_file_of_statistics_is_refused(
    sgc_cli: Sgc, quiz: Path, tmp_path: Path, option: str, text: str, reason: str
) -> None:
    stats = tmp_path / "stats.json"
    stats.write_text(text)
    result = sgc_cli("explain", quiz, "--inputs", quiz.with_name("rows.jsonl"), option, stats)
    assert result.code == 2
    assert f"{option} {stats}" in result.err
    assert reason in result.err
