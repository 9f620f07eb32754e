"""`sgc eval`: every suite on its small inputs, reports, faults in the data, and resumed runs."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support.cli import Result, Sgc
from support.crash import PYTHONPATH
from support.legal_texts import legal_text

import sgc
from sgc.eval.data import BUILTIN
from sgc.eval.registry import MODULES
from sgc.testing import ScriptedBackend

MEASURED = ("_per_s", "_s", "seconds", "cached", "computed", "hit_rate", "model_calls", "scored_t")
# A suite in another process that is killed there: it answers slowly.
SLOW = """
import sys
import sgc
from sgc.cli.main import main
from sgc.testing import ScriptedBackend

sgc.set_default_backend(
    ScriptedBackend(lambda prompt, params: f" {len(prompt)}", delay=lambda prompt: 0.05)
)
sys.exit(main(sys.argv[1:]))
"""


def answer(prompt: str, params: sgc.SamplingParams) -> str:
    if params.regex:
        return legal(params.regex)
    seed = int(hashlib.sha256(prompt.encode()).hexdigest()[:8], 16)
    return f" {seed % 97} words follow this one. END"


@cache
def legal(regex: str) -> str:
    return legal_text(sgc.SamplingParams(regex=regex), seed=1, free=0)


@pytest.fixture(autouse=True)
def answering(scripted: ScriptedBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sgc.eval.report.can_plot", lambda: False)  # pictures are tested apart
    sgc.set_default_backend(ScriptedBackend(answer))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A copy of the small inputs, to be broken."""
    return Path(shutil.copytree(BUILTIN, tmp_path / "data"))


@pytest.fixture
def evaluate(sgc_cli: Sgc, tmp_path: Path) -> Any:
    def run(*arguments: object, report: str = "report") -> Result:
        return sgc_cli("eval", *arguments, "--report", tmp_path / report)

    return run


def report_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "report.json").read_text())


def unmeasured(figures: dict[str, Any]) -> dict[str, Any]:
    """Without times, and without what depends on what the cache held."""
    return {name: v for name, v in figures.items() if not any(part in name for part in MEASURED)}


@pytest.mark.parametrize("name", MODULES)
def test_compiled_and_interpreted_suites_give_the_same(
    name: str, evaluate: Any, tmp_path: Path
) -> None:
    flags = (name, "--data", "builtin", "--limit", 2, "--samples")
    assert evaluate(*flags, "--mode", "compiled", report="a").code == 0
    assert evaluate(*flags, "--mode", "interpreted", report="b").code == 0
    for file in ("scores.jsonl", "samples.jsonl", "outputs.jsonl"):
        compiled = (tmp_path / "a" / name / file).read_bytes()
        assert compiled == (tmp_path / "b" / name / file).read_bytes()
    calls = [(tmp_path / part / name / "calls.jsonl").read_text() for part in "ab"]
    kept = [sum('"kind"' in line for line in text.splitlines()) for text in calls]
    assert kept[0] == kept[1] > 0
    figures = report_of(tmp_path / "a")["suites"][name]
    assert (figures["rows"], figures["failed"]) == (2, 0)
    assert figures["model_calls"] >= 2


def test_a_report_tells_scores_costs_and_conditions(evaluate: Any, tmp_path: Path) -> None:
    result = evaluate("mmlu", "gsm8k", "--data", "builtin", "--seed", 3)
    assert result.code == 0
    assert [line.split()[0] for line in result.out.splitlines()] == ["suite", "mmlu", "gsm8k"]
    report = report_of(tmp_path / "report")
    mmlu = report["suites"]["mmlu"]
    assert mmlu["interval"][0] <= mmlu["accuracy"] <= mmlu["interval"][1]
    assert {name: group["rows"] for name, group in mmlu["groups"].items()} == {
        "astronomy": 6,
        "cooking_basics": 6,
    }
    assert mmlu["latency_p50_s"] <= mmlu["latency_p99_s"]
    assert report["conditions"]["seed"] == 3
    assert report["conditions"]["model"] == "scripted"
    text = (tmp_path / "report" / "report.md").read_text()
    assert "not the benchmarks" in text
    assert "| astronomy | 6 |" in text


def test_scores_are_those_of_the_answers(evaluate: Any, tmp_path: Path) -> None:
    letters = {"planet is the largest": "C", "light year": "A", "guacamole": "B"}

    def select(prompt: str, choices: Any) -> list[float]:
        question = prompt.rstrip().rpartition("\n\n")[2]
        wanted = next((x for part, x in letters.items() if part in question), "D")
        return [float(choice.strip() == wanted) for choice in choices]

    sgc.set_default_backend(ScriptedBackend(answer, select=select))
    evaluate("mmlu", "--data", "builtin")
    lines = (tmp_path / "report" / "mmlu" / "scores.jsonl").read_text().splitlines()
    right = {row["id"] for row in map(json.loads, lines) if row["score"] == 1}
    # The named ones but the third, and all whose answer is D.
    assert right == {"astronomy/0", "astronomy/1", "astronomy/3", "cooking_basics/3"}


def test_help_lists_the_suites_and_their_files(sgc_cli: Sgc) -> None:
    shown = sgc_cli("eval", "--help").out
    for name in MODULES:
        assert f"\n  {name} " in shown
    assert "gsm8k/test.jsonl" in shown


def test_a_suite_that_is_unknown_is_named(evaluate: Any) -> None:
    result = evaluate("nmlu", "--data", "builtin")
    assert result.code == 2
    assert "there is no suite nmlu" in result.err


@pytest.mark.parametrize(
    ("file", "line", "problem"),
    [
        ("gsm8k/test.jsonl", '{"question": "How many?"', "test.jsonl:3: not JSON"),
        ("gsm8k/test.jsonl", '{"question": "How many?"}', "test.jsonl:3: there is no field"),
        ("gsm8k/test.jsonl", '{"question": "How many?", "answer": "two"}', "test.jsonl:3: Value"),
        ("mmlu/test/astronomy_test.csv", "What?,1,2,B", "astronomy_test.csv:3: there are 4 col"),
        ("mmlu/test/astronomy_test.csv", "What?,1,2,3,4,E", "astronomy_test.csv:3: ValueError"),
        ("hellaswag/val.jsonl", "[]", "val.jsonl:3: there is no field"),
    ],
)
def test_a_broken_row_is_named_and_left_out_or_stops(
    file: str, line: str, problem: str, evaluate: Any, data: Path, tmp_path: Path
) -> None:
    path = data / file
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], line, *lines[2:]]) + "\n")
    suite = file.partition("/")[0]
    result = evaluate(suite, "--data", data)
    assert result.code == 1
    assert problem in result.err
    figures = report_of(tmp_path / "report")["suites"][suite]
    assert figures["failed"] == 1
    assert figures["scored_rows"] == figures["rows"] - 1 >= 10
    strict = evaluate(suite, "--data", data, "--strict", report="strict")
    assert strict.code == 2
    assert problem in strict.err
    assert not (tmp_path / "strict").exists()


def test_a_missing_file_is_named(evaluate: Any, data: Path, tmp_path: Path) -> None:
    (data / "gsm8k" / "test.jsonl").unlink()
    alone = evaluate("gsm8k", "--data", data)
    assert alone.code == 2
    assert "gsm8k/test.jsonl: there is no such file" in alone.err
    together = evaluate("mmlu", "gsm8k", "--data", data)
    assert together.code == 1
    assert "gsm8k is left out" in together.err
    assert list(report_of(tmp_path / "report")["suites"]) == ["mmlu"]
    assert evaluate("mmlu", "gsm8k", "--data", data, "--strict", report="strict").code == 2


def test_a_wrong_column_is_named(evaluate: Any, data: Path) -> None:
    path = data / "hellaswag" / "val.jsonl"
    path.write_text(path.read_text().replace('"endings"', '"ends"'))
    result = evaluate("hellaswag", "--data", data)
    assert result.code == 2
    assert "no row has the field 'endings'" in result.err


def test_shown_examples_are_not_asked(evaluate: Any, tmp_path: Path) -> None:
    evaluate("hellaswag", "--data", "builtin", "--shots", 4)
    text = (tmp_path / "report" / "hellaswag" / "rows.jsonl").read_text()
    rows = [json.loads(line) for line in text.splitlines()]
    assert len(rows) == 26
    assert rows[0]["examples"].count("\n\n") == 4
    assert not [row for row in rows if row["context"] in row["examples"]]


def test_failed_rows_score_nothing_and_run_again(evaluate: Any, tmp_path: Path) -> None:
    def fail(prompt: str) -> Exception | None:
        return sgc.BackendError("cut") if "nests" in prompt.rpartition("Question")[2] else None

    sgc.set_default_backend(ScriptedBackend(answer, fail=fail))
    assert evaluate("gsm8k", "--data", "builtin").code == 1
    before = report_of(tmp_path / "report")["suites"]["gsm8k"]
    assert (before["failed"], before["scored_rows"], before["rows"]) == (1, 12, 12)
    sgc.set_default_backend(ScriptedBackend(answer))
    assert evaluate("gsm8k", "--data", "builtin", "--resume").code == 0
    assert evaluate("gsm8k", "--data", "builtin", report="whole").code == 0
    resumed, whole = (report_of(tmp_path / name) for name in ("report", "whole"))
    assert unmeasured(resumed["suites"]["gsm8k"]) == unmeasured(whole["suites"]["gsm8k"])


def test_a_finished_run_of_other_flags_is_not_taken(evaluate: Any) -> None:
    assert evaluate("gsm8k", "--data", "builtin").code == 0
    assert evaluate("gsm8k", "--data", "builtin", "--resume").code == 0
    other = evaluate("gsm8k", "--data", "builtin", "--resume", "--max-tokens", 5)
    assert other.code == 2
    assert "holds a run with other settings" in other.err


def test_a_killed_evaluation_resumes_to_the_same_report(evaluate: Any, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    flags = ["gsm8k", "mmlu", "--data", "builtin", "--samples", "--parallel", "2"]
    kill_after_rows(2, tmp_path, [*flags, "--report", "killed"])
    assert not (tmp_path / "killed" / "report.json").exists()
    sgc.set_default_backend(ScriptedBackend(lambda prompt, params: f" {len(prompt)}"))
    assert evaluate(*flags, "--resume", report="killed").code == 0
    assert evaluate(*flags, report="whole").code == 0
    resumed, whole = (report_of(tmp_path / name)["suites"] for name in ("killed", "whole"))
    for suite in ("gsm8k", "mmlu"):
        assert unmeasured(resumed[suite]) == unmeasured(whole[suite])
        for file in ("scores.jsonl", "samples.jsonl"):
            parts = (tmp_path / name / suite / file for name in ("killed", "whole"))
            assert len({part.read_bytes() for part in parts}) == 1
    times = (tmp_path / "killed" / "gsm8k" / "times.jsonl").read_text().splitlines()
    assert [json.loads(line).get("run") for line in times].count("resumed") == 1
    assert {json.loads(line).get("index") for line in times} == {None, *range(12)}


def kill_after_rows(rows: int, folder: Path, flags: list[str]) -> None:
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "slow.py", "eval", *flags]
    process = subprocess.Popen(command, cwd=folder, env=environment)
    outputs = folder / "killed" / "gsm8k" / "outputs.jsonl"
    while not outputs.exists() or outputs.read_text().count("\n") < rows:
        assert process.poll() is None, "it ended by itself"
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
