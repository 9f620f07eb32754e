"""The report of an evaluation: `report.json` with every figure, `report.md` and `report.html` to
read, pictures in `plots/`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sgc.cli.failure import say
from sgc.cli.output import writing
from sgc.eval import ablation_tables
from sgc.eval.folder import write_json
from sgc.eval.options import BUILTIN
from sgc.eval.page import report_page
from sgc.eval.plots import can_plot, write_plots
from sgc.eval.tables import aligned, number, percent, piped
from sgc.files import write_atomically

NOT_THE_BENCHMARK = (
    "The rows are the small ones that ship with sgc. They are not the benchmarks, and the scores "
    "say nothing about the model."
)
Figures = Mapping[str, Any]


def write_report(folder: Path, report: Mapping[str, Any], quiet: bool = False) -> None:
    """Write `report` (`suites` by name, `conditions`, `ablation` if there was one) into `folder`.

    Without matplotlib there are no pictures in `plots/`, which is said unless `quiet`. Raises
    CommandError.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "report.json", report)
    text = markdown(report)
    for name, content in (("report.md", text), ("report.html", report_page(report, text))):
        with writing(folder / name):
            write_atomically(folder / name, content.encode("utf-8", "replace"))
    if can_plot():
        write_plots(folder / "plots", report)
    elif not quiet:
        say("sgc: no pictures in plots/: matplotlib is not installed; pip install 'sgc[eval]'")


def markdown(report: Mapping[str, Any]) -> str:
    """The report as Markdown."""
    suites: Mapping[str, Figures] = report["suites"]
    parts = ["# Evaluation", ""]
    if report["conditions"]["data"] == BUILTIN:
        parts += [f"**{NOT_THE_BENCHMARK}**", ""]
    parts += [*_table(_SCORES, suites), "", *_table(_COSTS, suites), ""]
    for name, figures in suites.items():
        parts += [f"## {name}", "", *_about(figures), *_groups(figures)]
    if "ablation" in report:
        parts += ablation_tables.markdown(report["ablation"])
    parts += ["## Conditions", "", *_conditions(report["conditions"])]
    return "\n".join(parts) + "\n"


def summary(suites: Mapping[str, Figures]) -> str:
    """The table that `sgc eval` prints: a line a suite."""
    cells = [[name for name, _ in _SUMMARY]]
    cells += [[show(name, figures) for _, show in _SUMMARY] for name, figures in suites.items()]
    return "".join(line + "\n" for line in aligned(cells))


def _accuracy(name: str, figures: Figures) -> str:
    if figures["accuracy"] is None:
        return "-"
    low, high = figures["interval"]
    return f"{percent(figures['accuracy'])} ({100 * low:.1f} to {100 * high:.1f})"


def _of(field: str, digits: int = 0) -> Any:
    return lambda name, figures: number(figures[field], digits)


def _share(field: str) -> Any:
    return lambda name, figures: percent(figures[field])


_ROWS = ("rows", _of("rows"))
_FAILED = ("failed", _of("failed"))
_NAME = ("suite", lambda name, figures: name)
_SCORES = (
    _NAME,
    ("metric", lambda name, figures: figures["metric"]),
    ("score (95 % interval)", _accuracy),
    _ROWS,
    _FAILED,
    ("programs/s", _of("programs_per_s", 2)),
    ("tokens/s", _of("tokens_per_s")),
    ("p50, s", _of("latency_p50_s", 2)),
    ("p99, s", _of("latency_p99_s", 2)),
)
_COSTS = (
    _NAME,
    ("hit rate", _share("hit_rate")),
    ("optimum", _share("optimal_hit_rate")),
    ("prompt tokens", _of("prompt_tokens")),
    ("computed", _of("computed_tokens")),
    ("model calls", _of("model_calls")),
    ("generated", _of("completion_tokens")),
    ("forced", _of("forced_tokens")),
    ("peak KV tokens", _of("peak_kv_tokens")),
)
_SUMMARY = (*_SCORES[:1], _SCORES[2], _ROWS, _FAILED, _SCORES[5], _COSTS[1], _COSTS[2])


def _table(columns: Sequence[tuple[str, Any]], suites: Mapping[str, Figures]) -> list[str]:
    rows = [[title for title, _ in columns]]
    rows += [[show(name, figures) for _, show in columns] for name, figures in suites.items()]
    return piped(rows)


def _about(figures: Figures) -> list[str]:
    lines = [": ".join(filter(None, (figures["title"], figures["metric"]))) + "."]
    if figures["notes"]:
        lines.append(figures["notes"])
    means = ", ".join(f"{name} {value:.4f}" for name, value in figures.get("means", {}).items())
    return [*lines, *([f"Means: {means}."] if means else []), ""]


def _groups(figures: Figures) -> list[str]:
    if not figures["groups"]:
        return []
    rows = [["group", "rows", "score (95 % interval)"]]
    rows += [
        [name, number(group["rows"]), _accuracy(name, group)]
        for name, group in figures["groups"].items()
    ]
    return [*piped(rows), ""]


def _conditions(values: Mapping[str, Any]) -> list[str]:
    rows = [["condition", "value"]]
    for name, value in values.items():
        if isinstance(value, Mapping):
            value = ", ".join(f"{key} {part}" for key, part in value.items() if part is not None)
        elif isinstance(value, list):
            value = " ".join(map(str, value))
        rows.append([name, str(value)])
    return piped(rows)
