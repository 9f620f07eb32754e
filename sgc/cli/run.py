"""`sgc run`: run a graph or program over input rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sgc.cli.backend import BackendSettings
from sgc.cli.common import PATH, debug_option, quiet_option
from sgc.cli.options import given, options_of
from sgc.settings import RunSettings


@click.command(short_help="Run a graph or program over input rows.")
@click.argument("program", metavar="G.sgc|PROGRAM.py[:FUNCTION]")
@click.option("--inputs", metavar="ROWS", help="JSONL, JSON or CSV file, or - for JSONL on stdin.")
@click.option(
    "--arg",
    "arguments",
    multiple=True,
    metavar="NAME=VALUE",
    help="An argument of a single run, instead of --inputs; may be given again.",
)
@click.option(
    "-o", "--output", type=PATH, metavar="OUT", help="JSONL file (default, or -: stdout)."
)
@click.option("--backend", type=click.Choice(["local"]), help="What runs the model calls.")
@options_of(BackendSettings)
@options_of(RunSettings)
@click.option(
    "--tools", type=PATH, metavar="MODULE.py", help="Python file that registers the tools."
)
@click.option("--stats", type=PATH, metavar="S.json", help="Write the numbers of the run.")
@click.option(
    "--trace",
    type=PATH,
    metavar="T.json",
    help="Write what each row did and when, for Perfetto or Chrome's trace viewer; with --resume "
    "behind the runs that are in the file.",
)
@click.option(
    "--profile",
    is_flag=True,
    help="Show where the time of the engine's steps went, on the host and on the GPU; with -o OUT "
    "also in OUT.profile.json.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Go on with a run that was broken off or had rows that failed. Nodes that had finished "
    "do not run again.",
)
@click.option(
    "--assume-done",
    multiple=True,
    metavar="[ROW:]NODE[=JSON]",
    help="With --resume: an irreversible tool of unknown outcome has taken effect and gave JSON "
    "(default null).",
)
@click.option(
    "--rerun",
    multiple=True,
    metavar="[ROW:]NODE",
    help="With --resume: such a tool has taken no effect; run it again.",
)
@click.option(
    "--no-journal",
    is_flag=True,
    help="Keep no journal. Without this, OUT.journal lies beside OUT until all rows are good; one "
    "that holds finished work is never overwritten: resume that run, or move the file away.",
)
@click.option("--record", type=PATH, metavar="F", help="Write every model call to a file.")
@click.option(
    "--replay",
    type=PATH,
    metavar="F",
    help="Take the answers from such a file; no model is loaded, and a call that is not in it is "
    "an error.",
)
@click.option(
    "--no-reorder",
    is_flag=True,
    help="Run an artefact of `sgc compile --reorder` with its texts in the order as written.",
)
@click.option(
    "--reorder-rows",
    is_flag=True,
    help="For tables: plan the starts of all rows at once, so that equal cells come together "
    "however far apart they stand; the output keeps the order of the input. Holds all rows in "
    "memory.",
)
@click.option(
    "--explain-breaks",
    is_flag=True,
    help="Say at the end which statements Python has run because they are not compiled, how often "
    "and why; the parts around them run compiled.",
)
@click.option("--full-text", is_flag=True, help="Add text and messages to each output row.")
@quiet_option("No progress, no notes, no closing table.")
@debug_option
def command(program: str, backend: str | None, **values: Any) -> int:
    """Run a graph or program over rows of arguments, one JSON object a row.

    The output holds the rows in input order and grows as they finish. Exit code: 0 all rows good,
    1 some rows failed, 2 wrong usage or files, 3 no model or backend, 130 interrupted.
    """
    from sgc.cli.request import Request
    from sgc.cli.resuming import JournalOptions
    from sgc.cli.session import run_session

    if values["output"] == Path("-"):
        values["output"] = None
    engine, settings = given(BackendSettings, values), given(RunSettings, values)
    journal = JournalOptions(
        values.pop("resume"),
        not values.pop("no_journal"),
        values.pop("assume_done"),
        values.pop("rerun"),
    )
    return run_session(Request(program, backend, engine, settings, **values, journal=journal))
