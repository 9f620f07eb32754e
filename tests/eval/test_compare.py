"""`sgc compare`: scores are paired by row, conditions that differ are said, faults are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.cli import Result
from support.eval_reports import report, save

from sgc.cli.main import main


@pytest.fixture
def compare(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*arguments: object) -> Result:
        code = main(["compare", *map(str, arguments)])
        return Result(code, *capsys.readouterr())

    return run


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """In B nine rows more are right and one more wrong; a row of each has no partner or score."""
    first, second = report({"hellaswag": {}}), report({"hellaswag": {"programs_per_s": 12.0}})
    second["conditions"] |= {"model": "other", "date": "later", "command": ["sgc"]}
    second["conditions"]["flags"] = {"limit": 100, "shots": 5, "parallel": 8}
    a = save(tmp_path / "a", first, {"hellaswag": [1] * 3 + [0] * 17 + [1]})
    b = save(tmp_path / "b", second, {"hellaswag": [0] + [1] * 11 + [0] * 8})
    return a, b


def test_differences_with_significance(compare: Any, pair: tuple[Path, Path]) -> None:
    result = compare(*pair, "--format", "json")
    assert (result.code, result.err) == (0, "")
    found = json.loads(result.out)
    suite = found["suites"]["hellaswag"]
    assert suite["unpaired"] == [1, 0]
    score = suite["score"]
    assert (score["rows"], score["better"], score["worse"]) == (20, 9, 1)
    assert (score["first"], score["second"]) == (0.15, 0.55)
    assert score["difference"] == pytest.approx(0.4)
    assert score["p_value"] == pytest.approx(22 / 1024)
    assert ["programs_per_s", 8.0, 12.0] in suite["figures"]
    assert [(c["name"], c["first"], c["second"]) for c in found["conditions"]] == [
        ("model", "smollm2-135m", "other"),
        ("flags.shots", None, 5),
        ("flags.kv_tokens", 65536, None),
        ("flags.parallel", None, 8),
    ]


def test_text_and_markdown_say_the_same(
    compare: Any, pair: tuple[Path, Path], tmp_path: Path
) -> None:
    text = compare(*pair).out
    for cell in ("15.0 %", "55.0 %", "+40.0 (+", "0.02 *", "1.50", "McNemar exact", "flags.shots"):
        assert cell in text
    assert "hellaswag: 1 scored rows are in A alone, 0 in B alone." in text
    assert compare(*pair, "--format", "md", "-o", tmp_path / "c.md").out == ""
    words = (tmp_path / "c.md").read_text().replace("|", " ").replace("#", " ").split()
    assert [word for word in words if set(word) != {"-"} or word == "-"] == text.split()


def test_a_report_is_equal_to_itself(compare: Any, pair: tuple[Path, Path]) -> None:
    text = compare(pair[0], pair[0] / "report.json").out
    assert "Conditions: the same, date and command aside." in text
    assert "+0.0 (" in text
    assert "*" not in text


def test_shares_of_answers_are_compared_by_a_bootstrap(compare: Any, tmp_path: Path) -> None:
    made = report({"rag": {"metric": "F1"}})
    a = save(tmp_path / "a", made, {"rag": [n / 40 for n in range(40)]})
    b = save(tmp_path / "b", made, {"rag": [n / 40 + 0.01 for n in range(40)]})
    score = json.loads(compare(a, b, "--format", "json").out)["suites"]["rag"]["score"]
    assert (score["method"], score["better"]) == ("paired bootstrap", 40)
    assert score["interval"] == [pytest.approx(0.01), pytest.approx(0.01)]
    assert score["p_value"] < 0.001


def test_what_cannot_be_compared_is_said(compare: Any, tmp_path: Path) -> None:
    none = {"accuracy": None, "interval": None, "hit_rate": None}
    suites = {"chat-short": none, "mmlu": {"metric": "letter"}, "rag": {}, "gsm8k": {}, "react": {}}
    scores = {"mmlu": [1], "gsm8k": [1, None]}
    a = save(tmp_path / "a", report(suites), scores)
    suites["mmlu"] = {"metric": "log-likelihood"}
    del suites["react"]
    b = save(tmp_path / "b", report(suites), {**scores, "gsm8k": [None, 1]})
    text = compare(a, b).out
    assert "chat-short: not compared, it has no score." in text
    assert "mmlu: not compared, the scores are not of one kind (letter, log-likelihood)." in text
    assert f"rag: not compared, {a} keeps no scores of its rows." in text
    assert "gsm8k: not compared, they have no row in common." in text
    assert "Only A has react." in text
    other = save(tmp_path / "c", report({"llm-judge": {}}))
    assert "They have no suite in common." in compare(a, other).out


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("report.json", "[]", "report.json is no report"),
        ("report.json", '{"suites": {}}', "has no conditions"),
        ("report.json", '{"suites": {"x": 1}, "conditions": {}}', "has no figures of suites"),
        ("report.json", "{", "report.json: "),
        ("hellaswag/scores.jsonl", '{"id": "a", "score": 1}\n{"id": 1}\n', ":2: there is no id"),
        ("hellaswag/scores.jsonl", '{"id": "a", "score": 1}\n' * 2, ":2: the row 'a' stands twice"),
        ("hellaswag/scores.jsonl", '{"id": "a", "score": 2}\n', ":1: the score is no number"),
        ("hellaswag/scores.jsonl", "\n", "scores.jsonl:1: "),
    ],
)
def test_a_broken_file_is_named(
    compare: Any, pair: tuple[Path, Path], name: str, text: str, said: str
) -> None:
    (pair[1] / name).write_text(text)
    result = compare(*pair)
    assert (result.code, result.out) == (2, "")
    assert said in result.err
    assert result.err.count("\n") == 1


def test_a_missing_report_is_named(compare: Any, pair: tuple[Path, Path], tmp_path: Path) -> None:
    result = compare(pair[0], tmp_path)
    assert result.code == 2
    assert f"{tmp_path}/report.json: No such file" in result.err


def test_a_report_is_never_written_over(compare: Any, pair: tuple[Path, Path]) -> None:
    result = compare(*pair, "-o", pair[0] / "report.json")
    assert result.code == 2
    assert "is the report" in result.err
