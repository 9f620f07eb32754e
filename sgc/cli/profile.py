"""Where the time of a run's steps went: the table of `--profile`, and its file."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sgc.cli.failure import say
from sgc.cli.output import writing
from sgc.files import write_atomically

ENDING = ".profile.json"

_FIGURES = (("share", "share"), ("seconds", "s"), ("p50_ms", "50 % ms"), ("p99_ms", "99 % ms"))


def profile_path(output: Path | None, wanted: bool) -> Path | None:
    """The file of a run's profile, which lies beside its output; None where there is none."""
    return Path(f"{output}{ENDING}") if wanted and output is not None else None


def report(
    stats: Mapping[str, Any], path: Path | None, quiet: bool, only_found: bool = False
) -> None:
    """Write the profile among a backend's counters to `path`, and show it, unless `quiet`; where
    there is no file it is what was asked for, and shown anyway.

    Args:
        only_found: say nothing when there is none.
    """
    quiet = quiet and path is not None
    found = stats.get("profile")
    if found is None or not found["steps"]:
        if not quiet and not only_found:
            say(f"sgc: no profile: {_why_none(found)}")
        return
    if path is not None:
        with writing(path):
            write_atomically(path, (json.dumps(found, indent=2) + "\n").encode())
    if not quiet and sys.stderr is not None:
        _show(found)


def _why_none(found: object) -> str:
    if found is not None:
        return "no step was computed"
    return "the program's own backend keeps none; make it with profile=True"


def _show(found: Mapping[str, Any]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    gpu = found["gpu"]
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 0),  # all of it fits into 80 columns
        title=_title(found),
        title_justify="left",
        title_style="bold",
    )
    table.add_column("\nstep time", style="bold", no_wrap=True, min_width=9)
    for place in ("host", "GPU") if gpu is not None else ("host",):
        for _, title in _FIGURES:
            table.add_column(f"{place}\n{title}", justify="right", no_wrap=True)
    for kind in [*found["host"], *(k for k in gpu or () if k not in found["host"])]:
        cells = _cells(found["host"].get(kind))
        if gpu is not None:
            cells += _cells(gpu.get(kind))
        table.add_row(kind, *cells)
    table.add_section()
    table.add_row("all", *_cells(found["step"]), *([""] * len(_FIGURES) if gpu is not None else []))
    Console(stderr=True, highlight=False).print(table)


def _title(found: Mapping[str, Any]) -> str:
    idle = found["gpu_idle_share"]
    text = f"{found['steps']:,} steps on {found['device']}"
    return text if idle is None else f"{text}, GPU idle {100 * idle:.1f} %"


def _cells(figures: Mapping[str, float] | None) -> list[str]:
    if figures is None or not figures["count"]:
        return [""] * len(_FIGURES)
    return [
        f"{100 * figures['share']:.1f} %",
        f"{figures['seconds']:.2f}",
        f"{figures['p50_ms']:.2f}",
        f"{figures['p99_ms']:.2f}",
    ]
