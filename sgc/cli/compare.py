"""`sgc compare`: what differs between two reports of `sgc eval`, and by more than chance."""

from __future__ import annotations

import json
from pathlib import Path

import click

from sgc.cli.common import PATH, debug_option, print_result


@click.command(short_help="Show what differs between two reports of `sgc eval`.")
@click.argument("first", metavar="A", type=PATH)
@click.argument("second", metavar="B", type=PATH)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "md"]),
    default="text",
    help="Default: text.",
)
@click.option("-o", "--output", type=PATH, metavar="FILE", help="File instead of standard output.")
@debug_option
def command(first: Path, second: Path, form: str, output: Path | None) -> None:
    """Compare report B with report A: folders of `sgc eval --report`, or their report.json.

    Scores are paired by the id of the row. Right and wrong answers are tested by McNemar's exact
    test, other scores by a paired bootstrap. Other figures stand side by side, and conditions
    that differ are listed.
    """
    from sgc.cli.output import check_output, writing
    from sgc.eval.compare import compare
    from sgc.eval.comparison_text import comparison_text
    from sgc.eval.saved import read_report
    from sgc.files import write_atomically

    reports = [read_report(place) for place in (first, second)]
    check_output(output, {f"report {report.folder}": report.path for report in reports})
    result = compare(*reports)
    text = json.dumps(result, indent=1) + "\n" if form == "json" else ""
    text = text or comparison_text(result, markdown=form == "md")
    if output is None:
        return print_result(text)
    with writing(output):
        write_atomically(output, text.encode())
