"""Ablations: which parts are switched off, that answers stay, and what the tables say."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from support.local import tiny_folder

from sgc.cli.backend import BackendSettings
from sgc.eval import ablate as ablations
from sgc.eval.ablate import NAMES, ablate, compared
from sgc.eval.ablation_tables import markdown
from sgc.eval.options import EvalOptions
from sgc.eval.registry import find_suites
from sgc.eval.variants import FULL, HIT_RATE, VARIANTS, parse_variants, share_variant
from sgc.settings import RunSettings
from sgc_ir.errors import InputError

SHARES = (0.0, 0.5)


def options(folder: Path, report: Path) -> EvalOptions:
    engine = {"model": str(folder), "dtype": "float32", "kv_tokens": 4000}
    return EvalOptions("builtin", report, limit=6, shots=2, quiet=True, engine=engine)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Two variants, and three points of the hit rate."""
    folder = tiny_folder(tmp_path_factory.mktemp("tiny"))
    report = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ablations, "SHARES", SHARES)
        names = parse_variants("random,no-cache,hit-rate")
        return ablate(find_suites(["hellaswag"]), options(folder, report), names, 1)


def test_answers_are_those_of_the_whole_system(found: dict[str, Any]) -> None:
    table = found["suites"]["hellaswag"]
    assert list(table) == [FULL, "no-cache", "random"]
    points = found["hit_rate"]["hellaswag"]
    for figures in [*table.values(), *points]:
        assert figures["rows_that_differ"] == figures["failed"] == 0
        assert figures["programs_per_s"] > 0
        assert figures["mean_running"] >= 1
        assert figures["accuracy"] == table[FULL]["accuracy"]


def test_less_is_found_where_less_may_be(found: dict[str, Any]) -> None:
    table = found["suites"]["hellaswag"]
    assert table["no-cache"]["hit_rate"] == 0.0
    assert table["no-cache"]["computed_tokens"] > table[FULL]["computed_tokens"]
    points = found["hit_rate"]["hellaswag"]
    assert [point["match_share"] for point in points] == [*SHARES, 1.0]
    assert points[0]["hit_rate"] == 0.0
    assert points[0]["hit_rate"] < points[1]["hit_rate"] < points[-1]["hit_rate"]
    assert points[-1]["relative"] == 1.0
    assert points[-1]["hit_rate"] == table[FULL]["hit_rate"]


def test_the_report_is_data_and_its_tables_name_everything(found: dict[str, Any]) -> None:
    again = json.loads(json.dumps(found))
    text = "\n".join(markdown(again))
    for name in ("no-cache", "random", "50 %", "### hellaswag: part of the matches"):
        assert name in text
    widths = {line.count("|") for line in text.splitlines() if line.startswith("| programs/s")}
    assert widths == {4}
    assert "Rows whose outputs differ" not in text
    again["suites"]["hellaswag"]["random"]["rows_that_differ"] = 3
    assert "random hellaswag 3" in "\n".join(markdown(again))


def test_a_ratio_is_that_of_two_runs_of_one_repetition() -> None:
    def run(speed: float, said: str = "a") -> dict[str, Any]:
        return dict.fromkeys(NAMES) | {"programs_per_s": speed, "outputs": [said, "b"]}

    whole = [run(10.0), run(20.0), run(5.0)]
    found = compared([run(5.0, "c"), run(16.0), run(2.0)], whole)
    assert found["relative"] == 0.5
    assert found["relative_range"] == [0.4, 0.8]
    assert found["programs_per_s"] == 5.0
    assert found["rows_that_differ"] == 1
    assert found["mean_running"] is None


def test_runs_that_are_whole_are_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = options(tiny_folder(tmp_path / "model"), tmp_path / "report")
    suites, names = find_suites(["hellaswag"]), parse_variants("fcfs")
    first = ablate(suites, asked, names, 1)
    times = tmp_path / "report" / ablations.FOLDER
    broken = times / "fcfs-0" / "hellaswag"
    (broken / "finished.json").unlink()  # as after a kill
    before = {path: path.read_bytes() for path in times.rglob("times.jsonl")}
    second = ablate(suites, replace(asked, resume=True), names, 1)
    changed = [path for path, data in before.items() if path.read_bytes() != data]
    assert changed == [broken / "times.jsonl"]
    table = first["suites"]["hellaswag"], second["suites"]["hellaswag"]
    assert table[0][FULL] == table[1][FULL]


def test_what_is_asked_for() -> None:
    assert parse_variants("all") == tuple(VARIANTS)
    assert parse_variants("hit-rate, fcfs,no-cache,fcfs") == ("no-cache", "fcfs", HIT_RATE)
    assert parse_variants(HIT_RATE) == (HIT_RATE,)
    with pytest.raises(InputError, match="no ablation no-gpu; the ablations are no-cache, "):
        parse_variants("all,no-gpu")


def test_variants_are_flags_of_a_run_that_differ_from_the_defaults() -> None:
    engine = {f.name: f.default for f in fields(BackendSettings)}
    settings = {f.name: f.default for f in fields(RunSettings)}
    for variant in (*VARIANTS.values(), share_variant(0.5)):
        assert variant.engine or variant.settings
        assert all(engine[name] != value for name, value in variant.engine.items())
        assert all(settings[name] != value for name, value in variant.settings.items())
        BackendSettings(**variant.engine)
        RunSettings(**variant.settings)
