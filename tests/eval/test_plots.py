"""Pictures of a report: what they show, and that they come out as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.eval_reports import ABLATIONS, report

from sgc.eval.charts import Bars, Lines, charts

SUITES: dict[str, dict[str, Any]] = {
    "hellaswag": {},
    "chat-short": {"accuracy": None, "interval": None, "optimal_hit_rate": None},
}


def test_charts_hold_what_the_report_says() -> None:
    found = {chart.name: chart for chart in charts(report(SUITES))}
    assert list(found) == ["accuracy", "throughput", "hit_rate", "latency"]
    accuracy, rates = found["accuracy"], found["hit_rate"]
    assert isinstance(accuracy, Bars)
    assert (accuracy.labels, accuracy.series) == (["hellaswag"], {"score": [0.5]})
    assert (accuracy.spans, accuracy.end) == ([(0.4, 0.6)], 1.0)
    assert isinstance(rates, Bars)
    assert rates.series == {"hit rate": [0.9, 0.9], "optimum": [0.95, None]}
    latency = found["latency"]
    assert isinstance(latency, Bars)
    assert latency.end == 2.25


def test_what_has_no_figure_has_no_chart() -> None:
    none = {"accuracy": None, "interval": None, "hit_rate": None, "optimal_hit_rate": None}
    names = [chart.name for chart in charts(report({"tools": none}))]
    assert names == ["throughput", "latency"]


def test_ablations_have_charts_of_their_own() -> None:
    made = report(SUITES) | {"ablation": ABLATIONS}
    found = {chart.name: chart for chart in charts(made)}
    parts, sweep = found["ablations"], found["programs_per_s_by_hit_rate"]
    assert isinstance(parts, Bars)
    assert (parts.labels, parts.series) == (["full", "no-cache"], {"geometric mean": [1.0, 0.4]})
    assert isinstance(sweep, Lines)
    assert sweep.lines == {"hellaswag": [(0.0, 3.0), (0.9, 8.0)]}
    assert sweep.ends == (0.9, 8.0)


def test_files_are_pictures_and_come_again(tmp_path: Path) -> None:
    plots = pytest.importorskip("sgc.eval.plots")
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra `eval`)")
    (tmp_path / "plots").mkdir()
    (tmp_path / "plots" / "old.png").write_bytes(b"")
    made = report(SUITES) | {"ablation": ABLATIONS}
    paths = plots.write_plots(tmp_path / "plots", made)
    assert [path.stem for path in paths] == [chart.name for chart in charts(made)]
    assert sorted(paths) == sorted((tmp_path / "plots").iterdir())
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    for path in paths:
        with image.open(path) as picture:
            assert picture.width == 7 * 144
            assert len(picture.convert("RGB").getcolors(1 << 20)) > 8
    assert plots.png(charts(made)[0]) == paths[0].read_bytes()
