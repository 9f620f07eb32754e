"""`sgc compile --passes`, `--explain-passes` and `sgc diff`."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli import Sgc

SHOTS = """
import sgc


@sgc.function
def shots(s, q: str):
    s += "Answer.\\n"
    s += "Q: 1 + 1\\nA: 2\\n"
    s += f"Q: {q}\\nA:"
    s += sgc.gen("a", max_tokens=4)
"""


@pytest.fixture
def shots(tmp_path: Path) -> Path:
    path = tmp_path / "shots.py"
    path.write_text(SHOTS)
    return path


def test_diff_shows_what_a_pass_did(sgc_cli: Sgc, shots: Path, tmp_path: Path) -> None:
    plain, merged = tmp_path / "plain.sgc", tmp_path / "merged.sgc"
    sgc_cli("compile", shots, "-o", plain, "--passes", "none")
    result = sgc_cli("compile", shots, "-o", merged, "--explain-passes", "--quiet")
    assert result.code == 0
    assert "texts: 1 change " in result.out
    assert f"shots: t2 ({shots}:8): joins the text 'Answer.\\n' before it" in result.out
    result = sgc_cli("diff", plain, merged)
    assert result.code == 1
    assert result.out.splitlines() == [
        "@@ shots: t1 @@",
        '- %1 = ConstantText text="Answer.\\n"  # t1',
        '- %2 = ConstantText text="Q: 1 + 1\\nA: 2\\n"  # t2',
        '+ %1 = ConstantText text="Answer.\\nQ: 1 + 1\\nA: 2\\n"  # t1',
    ]
    result = sgc_cli("diff", merged, shots)
    assert (result.code, result.out) == (0, "no difference\n")


def test_one_pass_is_left_out(sgc_cli: Sgc, shots: Path, tmp_path: Path) -> None:
    output = tmp_path / "p.sgc"
    result = sgc_cli("compile", shots, "-o", output, "--passes=-texts", "--explain-passes")
    assert result.code == 0
    assert "texts:" not in result.out
    assert "fold: no changes" in result.out


def test_an_unknown_pass_is_refused(sgc_cli: Sgc, shots: Path, tmp_path: Path) -> None:
    output = tmp_path / "p.sgc"
    result = sgc_cli("compile", shots, "-o", output, "--passes", "fold,nope")
    assert result.code == 2
    assert result.err.startswith("sgc: error: --passes: there is no pass 'nope'; the passes are ")
    assert not output.exists()


JUDGE = """
import sgc


@sgc.function
def judge(s, essay: str):
    s += sgc.user(f"Essay:\\n{essay}\\n\\nGrade strictly from A to D. Reply with a single letter.")
    s += sgc.assistant(sgc.gen("grade", max_tokens=2))
"""


def test_reorder_is_asked_for_reported_and_taken_back(sgc_cli: Sgc, tmp_path: Path) -> None:
    source, output, rows = (tmp_path / name for name in ("judge.py", "judge.sgc", "out.jsonl"))
    source.write_text(JUDGE)
    result = sgc_cli("compile", source, "-o", output, "--reorder", "--explain-passes", "--quiet")
    assert result.code == 0, result.err
    moved = "moves 'Grade strictly from A to D. Reply with a sin... forward: 11 more shared words"
    assert moved in result.out
    assert sgc_cli("diff", source, output).code == 1
    for flags in ([], ["--no-reorder"]):
        result = sgc_cli("run", output, "--arg", "essay=E", "-o", rows, "--full-text", *flags)
        assert result.code == 0, result.err
        text = rows.read_text()
        assert (text.index("Essay:") < text.index("Grade strictly")) == bool(flags)
        rows.unlink()


PAIR = """
import sgc


@sgc.function
def ask(s, q: str):
    s += q + sgc.gen("a", max_tokens=2, temperature=0)
    return s["a"]


@sgc.function
def pair(s, q: str):
    first, again, unread = ask(q), ask(q), ask("else")
    s.set("one", first.value)
    s.set("two", again.value)
"""


def test_outputs_and_merge_leave_calls_out_and_list_them(sgc_cli: Sgc, tmp_path: Path) -> None:
    source, output = tmp_path / "pair.py", tmp_path / "pair.sgc"
    source.write_text(PAIR)
    flags = ("--outputs", "one,two", "--merge", "--explain-passes", "--quiet")
    result = sgc_cli("compile", f"{source}:pair", "-o", output, *flags)
    assert result.code == 0, result.err
    assert f"pair: c2 ({source}:13): is left out: SubProgram ask" in result.out
    assert f"pair: c1 ({source}:13): ask is that of c0" in result.out
    result = sgc_cli("compile", f"{source}:pair", "-o", output, "--outputs", "one,nope")
    assert result.code == 2
    assert "--outputs: pair sets no variable 'nope'" in result.err


def test_sample_rows_and_a_judge_test_the_new_order(sgc_cli: Sgc, tmp_path: Path) -> None:
    source, output, rows = (tmp_path / name for name in ("judge.py", "judge.sgc", "rows.jsonl"))
    source.write_text(JUDGE)
    rows.write_text('{"essay": "one"}\n{"essay": "two"}\n')
    flags = ["compile", source, "-o", output, "--reorder", "--reorder-rows", rows]
    result = sgc_cli(*flags, "--reorder-bound", "0")
    assert result.code == 0, result.err
    assert "sgc: reorder: the outputs of 2 rows (0 selects, 2 gens) change by " in result.err
    result = sgc_cli(*flags, "--reorder-judge")
    assert "sgc: reorder: the judge model takes 1 of 1 moves for harmless" in result.err
    result = sgc_cli("compile", source, "-o", output, "--reorder-judge")
    assert result.code == 2
    assert "there is no motion to test; add --reorder" in result.err
