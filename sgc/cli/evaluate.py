"""`sgc eval`: run evaluation suites and report scores and costs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from sgc.cli.backend import BackendSettings
from sgc.cli.common import PATH, debug_option, print_result, quiet_option
from sgc.cli.failure import CommandError
from sgc.cli.options import given, options_of
from sgc.settings import RunSettings


class _EvalCommand(click.Command):
    """Lists the suites and their files below the options."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from sgc.eval.registry import ALL, find_suites

        files = [(s.name, ", ".join(s.files) or "needs no data") for s in find_suites([ALL])]
        with formatter.section("Suites and their files below --data"):
            formatter.write_dl(files)


@click.command(cls=_EvalCommand, short_help="Run evaluation suites and report scores and costs.")
@click.argument("suites", metavar="SUITE...", nargs=-1, required=True)
@click.option(
    "--data",
    required=True,
    metavar="DIR|builtin|hub",
    help="Folder of the benchmarks' files; builtin: small rows that ship with sgc and are not the "
    "benchmarks; hub: fetch them from the Hugging Face hub.",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Rows of a suite, at most.")
@click.option("--shots", type=click.IntRange(0), metavar="K", help="Solved examples in a prompt.")
@click.option(
    "--report",
    type=PATH,
    default=Path("sgc-eval"),
    metavar="DIR",
    help="Folder of the report and of all files of the evaluation (default sgc-eval).",
)
@click.option("--samples", is_flag=True, help="Keep every prompt and every answer.")
@click.option("--latency", is_flag=True, help="Run one program at a time.")
@click.option("--strict", is_flag=True, help="Stop at a broken row or a suite without its files.")
@click.option("--resume", is_flag=True, help="Go on with an evaluation that was broken off.")
@click.option(
    "--ablate",
    metavar="LIST",
    help="Run every suite again with a part of the system switched off: no-cache, no-tree, fcfs, "
    "random, no-parallel, no-hints, no-plan, no-jump, interpreted (several with commas), or all; "
    "hit-rate: with part of the cache's matches disabled.",
)
@click.option(
    "--repetitions",
    type=click.IntRange(1),
    default=3,
    metavar="N",
    help="With --ablate: runs of each, interleaved; figures are medians (default 3).",
)
@click.option("--backend", type=click.Choice(["local"]), help="What runs the model calls.")
@options_of(BackendSettings)
@options_of(RunSettings)
@quiet_option("No progress, no notes.")
@debug_option
def command(
    suites: tuple[str, ...], latency: bool, ablate: str | None, repetitions: int, **values: Any
) -> int:
    """Run evaluation suites, or `all`, each as a run of its program over the rows of a benchmark.

    The seed also takes the sample. Exit code: 0 all rows good, 1 some rows or suites failed, 2
    wrong usage or files, 3 no model or backend, 130 interrupted; `--resume` goes on.
    """
    from sgc.eval.conditions import conditions
    from sgc.eval.options import EvalOptions
    from sgc.eval.registry import find_suites
    from sgc.eval.report import summary, write_report
    from sgc.eval.run import run_suites
    from sgc.eval.variants import parse_variants

    names = () if ablate is None else parse_variants(ablate)
    engine, settings = given(BackendSettings, values), given(RunSettings, values)
    if latency:
        if settings.get("parallel", 1) != 1:
            raise CommandError("--latency together with --parallel", "drop one")
        settings["parallel"] = 1
    options, wanted = EvalOptions(**values, engine=engine, settings=settings), find_suites(suites)
    found, code = run_suites(wanted, options)
    report = {"suites": found, "conditions": conditions(["sgc", *sys.argv[1:]], options)}
    write_report(options.report, report, options.quiet)
    if names:
        from sgc.eval.ablate import ablate as ablate_suites

        ran = [suite for suite in wanted if suite.name in found]
        report["ablation"] = ablate_suites(ran, options, names, repetitions)
        write_report(options.report, report, options.quiet)
    print_result(summary(found))
    return code
