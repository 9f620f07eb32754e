"""Notes of what was tried for missed goals: their form, and their way into the result file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import engine_cpu
from benchmarks.common.attempts import attempts_path, lacking, read_attempts

GOOD: dict[str, Any] = {
    "goal": "(a) transformers generate",
    "cause": "the value product of prefill attention takes 30 % of the forward",
    "tried": "pairs in bfloat16",
    "before": 3.65,
    "after": {"seconds": 3.1, "tokens_s": 1270},
    "kept": True,
    "commit": "0123abc",
    "command": "python -m benchmarks.engine_cpu --parts a",
}


def written(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_attempts_are_kept_by_part(tmp_path: Path) -> None:
    other = {**GOOD, "goal": "e: batched", "before": "20.8x", "kept": False}
    found = read_attempts(written(tmp_path / "x.json", [GOOD, other, GOOD]), "abcde")
    assert found == {"a": [GOOD, GOOD], "e": [other]}
    assert read_attempts(tmp_path / "absent.json", "abcde") == {}


def test_parts_may_have_long_names(tmp_path: Path) -> None:
    goals = ("c-free: as fast", "(c date): 4x", "c: all of them")
    path = written(tmp_path / "x.json", [{**GOOD, "goal": goal} for goal in goals])
    found = read_attempts(path, ["c", "c date", "c-free"])
    assert {name: len(of) for name, of in found.items()} == {"c": 1, "c date": 1, "c-free": 1}
    with pytest.raises(ValueError, match=r"does not begin with one of \(c date, d\)"):
        read_attempts(path, ["c date", "d"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[{]", "not JSON"),
        ({"goal": "a"}, "a list of attempts is expected, not a dict"),
        ([GOOD, 3], "attempt 1: an object is expected, not a int"),
        ([{k: v for k, v in GOOD.items() if k != "before"}], "attempt 0: before is missing"),
        ([{**GOOD, "beside": 1}], "beside is not known"),
        ([{**GOOD, "cause": " "}], "cause must be a text"),
        ([{**GOOD, "after": "faster"}], "after must be a number"),
        ([{**GOOD, "after": {}}], "after must be a number"),
        ([{**GOOD, "before": True}], "before must be a number"),
        ([{**GOOD, "kept": "yes"}], "kept must be true or false"),
        ([{**GOOD, "goal": "all of them"}], r"does not begin with one of \(abcde\)"),
    ],
)
def test_a_wrong_form_is_named(tmp_path: Path, content: Any, said: str) -> None:
    path = written(tmp_path / "x.json", content)
    with pytest.raises(ValueError, match=said) as caught:
        read_attempts(path, "abcde")
    assert str(path) in str(caught.value)


def test_a_missed_goal_needs_two_attempts() -> None:
    missed = {"comparisons": [{"met": True, "like_for_like": {"met": False}}]}
    assert lacking({"comparisons": [{"met": True}, {}]}) == 0
    assert lacking(missed) == 2
    assert lacking({**missed, "attempts": [GOOD]}) == 1
    assert lacking({**missed, "attempts": [GOOD] * 3}) == 0


def test_attempts_come_into_the_parts_of_an_earlier_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = written(tmp_path / "notes.json", [GOOD])
    missed = {"comparisons": [{"met": False}]}
    old = {"what": "old", "commit": "1", "parts": {"a": missed, "b": {"comparisons": []}}}
    out = written(tmp_path / "results.json", old)
    engine_cpu.main(["--parts", "", "--attempts", str(notes), "--output", str(out)])
    parts = json.loads(out.read_text())["parts"]
    assert parts["a"] == {"conditions": {"commit": "1"}, **missed, "attempts": [GOOD]}
    assert "attempts" not in parts["b"]
    assert "(a) misses a goal; notes.json needs 1 more attempt" in capsys.readouterr().out


def test_a_wrong_file_stops_the_benchmark_before_it_measures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = written(tmp_path / "notes.json", [{**GOOD, "kept": None}])
    with pytest.raises(SystemExit):
        engine_cpu.main(["--attempts", str(notes), "--output", str(tmp_path / "r.json")])
    assert "attempt 0: kept must be true or false" in capsys.readouterr().err
    assert not (tmp_path / "r.json").exists()


def test_the_notes_of_this_repository_have_the_right_form() -> None:
    for part, attempts in read_attempts(attempts_path("engine_cpu"), "abcde").items():
        assert part in "abcde"
        assert attempts
