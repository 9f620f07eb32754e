"""Ablations: every suite again with one part of the system switched off.

Repetitions are interleaved: all variants run once before any runs again, forward and backward by
turns, so that what else the machine does meets all of them. A ratio is that of two runs of one
repetition.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from sgc.cli.failure import say
from sgc.cli.output import writing
from sgc.eval.folder import SuiteFolder, read_lines, read_object
from sgc.eval.options import EvalOptions
from sgc.eval.run import load_suite, run_suite
from sgc.eval.suite import Row, Suite
from sgc.eval.variants import FULL, HIT_RATE, SHARES, VARIANTS, WHOLE, Variant, share_variant

FOLDER = "ablation"  # below that of the report
_WARM_UP_ROWS = 8
_FIGURES = (
    "programs_per_s",
    "tokens_per_s",
    "latency_p50_s",
    "latency_p99_s",
    "latency_mean_s",
    "hit_rate",
    "optimal_hit_rate",
    "computed_tokens",
    "model_calls",
    "forced_tokens",
    "peak_kv_tokens",
)
_OF_ENGINE = ("mean_running", "prefill_steps", "decode_steps")
NAMES = (*_FIGURES, *_OF_ENGINE, "failed", "accuracy")
Run = dict[str, Any]


def ablate(
    suites: Sequence[Suite], options: EvalOptions, names: Sequence[str], repetitions: int
) -> dict[str, Any]:
    """The figures of all variants, for the report.

    Args:
        names: as `parse_variants` gives them.
        repetitions: runs of each variant; figures are medians.

    Raises EvalDataError, and what keeps a run from starting.
    """
    variants = [WHOLE, *(VARIANTS[name] for name in names if name != HIT_RATE)]
    shares = [share_variant(share) for share in SHARES] if HIT_RATE in names else []
    found: dict[str, Any] = {
        "repetitions": repetitions,
        "variants": {v.name: _facts(v) for v in variants},
        "suites": {},
        "hit_rate": {},
    }
    for suite in suites:
        loaded = load_suite(suite, replace(options, quiet=True))
        rows = [row for row in loaded if not row.problem]
        runs = _runs(suite, rows, options, [*variants, *shares], repetitions)
        whole = runs[FULL]
        found["suites"][suite.name] = {v.name: compared(runs[v.name], whole) for v in variants}
        if shares:
            points = [compared(runs[v.name], whole) for v in (*shares, WHOLE)]
            found["hit_rate"][suite.name] = [
                {"match_share": share, **point}
                for share, point in zip((*SHARES, 1.0), points, strict=True)
            ]
    found["mean"] = _means(found["suites"])
    return found


def _facts(variant: Variant) -> dict[str, Any]:
    return {
        "title": variant.title,
        "engine": dict(variant.engine),
        "settings": dict(variant.settings),
    }


def _runs(
    suite: Suite,
    rows: Sequence[Row],
    options: EvalOptions,
    variants: Sequence[Variant],
    repetitions: int,
) -> dict[str, list[Run]]:
    """Each variant's runs, in the order of the repetitions."""
    runs: dict[str, list[Run]] = {variant.name: [] for variant in variants}
    _run(suite, rows[:_WARM_UP_ROWS], options, WHOLE, "warm-up")
    for i in range(repetitions):
        for variant in variants if i % 2 == 0 else reversed(variants):
            if not options.quiet:
                say(f"sgc: {suite.name}: {variant.name}, run {i + 1} of {repetitions}")
            runs[variant.name].append(_run(suite, rows, options, variant, f"{variant.name}-{i}"))
    return runs


def _run(
    suite: Suite, rows: Sequence[Row], options: EvalOptions, variant: Variant, name: str
) -> Run:
    """One run: its figures, and what its rows gave. One that was broken off begins anew, since
    it is timed."""
    changed = replace(
        options,
        report=options.report / FOLDER / name,
        samples=False,
        quiet=True,
        engine={**options.engine, **variant.engine},
        settings={**options.settings, **variant.settings},
    )
    folder = SuiteFolder(changed.report / suite.name)
    if not (options.resume and folder.finished.exists()):
        _clear(folder.path)
    figures = run_suite(suite, rows, changed)
    stats = read_object(folder.stats)
    return {
        **{name: figures.get(name) for name in (*_FIGURES, "failed", "accuracy")},
        **{name: stats.get(name) for name in _OF_ENGINE},
        # Not `value`, which may hold scores: those differ in their last digits by rounding.
        "outputs": [record["vars"] for record in read_lines(folder.outputs)],
    }


def _clear(folder: Path) -> None:
    if folder.exists():
        with writing(folder):
            shutil.rmtree(folder)


def compared(runs: Sequence[Run], whole: Sequence[Run]) -> dict[str, Any]:
    """Medians of the runs of a variant, and its throughput relative to the whole system's."""
    ratios = [a["programs_per_s"] / b["programs_per_s"] for a, b in zip(runs, whole, strict=True)]
    first, same = runs[0]["outputs"], whole[0]["outputs"]
    return {
        **{name: _median([run[name] for run in runs]) for name in NAMES},
        "relative": median(ratios),
        "relative_range": [min(ratios), max(ratios)],
        "rows_that_differ": sum(a != b for a, b in zip(first, same, strict=True)),
    }


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _means(suites: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """The geometric mean of each variant's ratios."""
    tables = list(suites.values())
    return {name: geometric_mean(t[name]["relative"] for t in tables) for name in tables[0]}
