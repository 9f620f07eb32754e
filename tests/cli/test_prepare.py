"""`sgc compile --tokenizer`: masks that runs find, and budgets that no text can keep."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli import Sgc
from support.tokenizer import KINDS, save_directory

from sgc_ir.params import SamplingParams
from sgc_runtime.constraints.compiler import ConstraintCompiler
from sgc_runtime.constraints.of_tokenizer import constraint_tools
from sgc_runtime.tokenizer.tokenizer import load_tokenizer

PROGRAM = """
import sgc

@sgc.function
def fill(s, q: str):
    s += q + sgc.gen("p", json_schema={{"type": "array", "minItems": 3}}, max_tokens={p})
    s += sgc.gen("r", regex="[a-z]{{40}}", max_tokens={r}) + sgc.gen("d", dtype=int)
    s += sgc.gen("free") + sgc.gen("open", regex=q)
    s += "".join(part for part in [s["r"], s["d"]])
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SGC_CACHE", str(tmp_path / "cache"))
    save_directory(KINDS[0], tmp_path / "model")
    return tmp_path / "model"


def written(tmp_path: Path, p: str = "64", r: str = "64") -> Path:
    path = tmp_path / "fill.py"
    path.write_text(PROGRAM.format(p=p, r=r))
    return path


def test_masks_are_made_where_runs_find_them(sgc_cli: Sgc, model: Path, tmp_path: Path) -> None:
    graph = tmp_path / "g.sgc"
    done = sgc_cli("compile", written(tmp_path), "-o", graph, "--tokenizer", model)
    assert (done.code, done.out) == (0, "")
    lines = done.err.splitlines()
    assert [f"gen {name!r}: " in line for name, line in zip("prd", lines, strict=False)] == [
        True
    ] * 3
    assert f"{tmp_path / 'fill.py'}:6: gen 'p': json_schema, at least " in lines[0]
    assert "masks of " in lines[0]
    assert lines[-1].startswith(f"sgc: wrote {graph}")
    compiler = ConstraintCompiler(lambda: constraint_tools(load_tokenizer(model)))
    masks = compiler.submit(SamplingParams(regex="[a-z]{40}")).result().masks
    assert masks._kept
    assert not masks._new
    quiet = sgc_cli("compile", written(tmp_path), "-o", graph, "--tokenizer", model, "--quiet")
    assert (quiet.code, quiet.err) == (0, "")


def test_masks_that_cannot_be_kept_are_told(
    sgc_cli: Sgc, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SGC_CACHE", str(tmp_path / "file"))
    done = sgc_cli("compile", written(tmp_path), "-o", tmp_path / "g.sgc", "--tokenizer", model)
    assert done.code == 0
    assert " are kept" not in done.err.replace("no masks are kept", "")
    told = f"no masks are kept, {tmp_path / 'file'} cannot be written; set SGC_CACHE"
    assert done.err.count(told) == 3


def test_values_that_cannot_be_finished_are_refused(
    sgc_cli: Sgc, model: Path, tmp_path: Path
) -> None:
    graph = tmp_path / "g.sgc"
    done = sgc_cli("compile", written(tmp_path, p="2"), "-o", graph, "--tokenizer", model)
    assert (done.code, done.out) == (2, "")
    assert f"{tmp_path / 'fill.py'}:6: gen 'p': max_tokens=2 is too little" in done.err
    assert "json_schema needs at least" in done.err
    assert not graph.exists()
    assert sgc_cli("compile", written(tmp_path, p="2"), "-o", graph).code == 0


def test_texts_that_will_be_cut_are_warned_of(sgc_cli: Sgc, model: Path, tmp_path: Path) -> None:
    program = written(tmp_path, r="2")
    done = sgc_cli("compile", program, "-o", tmp_path / "g", "--tokenizer", model)
    assert done.code == 0
    assert f"warning: {program}:7: gen 'r': max_tokens=2 is too little" in done.err


def test_no_constraints_and_no_tokenizer(sgc_cli: Sgc, greet: Path, tmp_path: Path) -> None:
    graph = tmp_path / "g.sgc"
    none = sgc_cli("compile", greet, "-o", graph, "--tokenizer", tmp_path / "missing")
    assert none.code == 0
    assert "no gen has a constraint" in none.err
    program = written(tmp_path)
    missing = sgc_cli("compile", program, "-o", graph, "--tokenizer", tmp_path / "missing")
    assert missing.code == 3
    assert len(missing.err.splitlines()) == 1
