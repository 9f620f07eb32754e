"""`sgc eval --ablate`: what it writes beside the report, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli import Sgc

import sgc
from sgc.testing import ScriptedBackend

EVAL = ("eval", "hellaswag", "--data", "builtin", "--limit", 3, "--shots", 1, "--quiet")


@pytest.fixture(autouse=True)
def answering(scripted: ScriptedBackend) -> None:
    sgc.set_default_backend(ScriptedBackend(lambda prompt, params: " x"))


def test_tables_and_figures_go_into_the_report(sgc_cli: Sgc, tmp_path: Path) -> None:
    flags = ("--ablate", "interpreted,no-plan", "--repetitions", 2, "--report", tmp_path / "r")
    assert sgc_cli(*EVAL, *flags).code == 0
    report = json.loads((tmp_path / "r" / "report.json").read_text("utf-8"))
    found = report["ablation"]
    assert list(found["variants"]) == ["full", "no-plan", "interpreted"]
    table = found["suites"]["hellaswag"]
    assert [figures["rows_that_differ"] for figures in table.values()] == [0, 0, 0]
    assert set(found["mean"]) == set(table)
    assert found["repetitions"] == 2
    text = (tmp_path / "r" / "report.md").read_text("utf-8")
    assert "| interpreted: programs are interpreted, not compiled |" in text
    assert report["suites"]["hellaswag"]["rows"] == 3


def test_a_name_that_no_part_has_is_refused_before_anything_runs(
    sgc_cli: Sgc, tmp_path: Path
) -> None:
    result = sgc_cli(*EVAL, "--ablate", "no-gpu", "--report", tmp_path / "r")
    assert result.code == 2
    assert "there is no ablation no-gpu; the ablations are no-cache, no-tree, " in result.err
    assert not (tmp_path / "r").exists()
