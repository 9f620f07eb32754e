"""`sgc inspect`: show a graph or an automaton in a form that people or other tools read."""

from __future__ import annotations

from pathlib import Path

import click

from sgc.cli.common import PATH, debug_option, print_result

FORMATS = ("text", "mermaid", "dot", "svg", "json", "html")
MOST_STATES = 50_000  # of an automaton over bytes; a few seconds of work


@click.command(short_help="Show a graph, or the automaton of a regex, as text or a picture.")
@click.argument("graph", metavar="G.sgc|PROGRAM.py[:FUNCTION]", required=False)
@click.option("--fsm", metavar="REGEX", help="Show the automaton of a regular expression instead.")
@click.option(
    "--forced",
    is_flag=True,
    help="Show instead the texts that are known across gens: what constraints force, and constants "
    "beside it.",
)
@click.option(
    "--hints",
    is_flag=True,
    help="Show instead what a run tells the engine of the graph's calls: bounds of their tokens, "
    "by how many calls their prompts are read again, and when.",
)
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", help="Default: text.")
@click.option("-o", "--output", type=PATH, metavar="FILE", help="File instead of standard output.")
@debug_option
def command(
    graph: str | None,
    fsm: str | None,
    forced: bool,
    hints: bool,
    form: str,
    output: Path | None,
) -> None:
    """Print the graph of an artefact, or of a program that is compiled on the way.

    `--format html` is one page with the picture and all nodes; it needs no network.

    With --fsm: the states of a regular expression's automaton, as gen(regex=...) follows it, and
    its compressed edges. `=>` marks text that is forced, and needs no model.
    """
    from sgc.cli.failure import CommandError
    from sgc.cli.output import check_output, writing
    from sgc.files import write_atomically

    if (graph is None) == (fsm is None):
        raise CommandError("inspect shows one thing", "give a graph or program, or --fsm REGEX")
    if fsm is not None and form == "html":
        raise CommandError("--format html shows a graph", "give --fsm another --format")
    if forced and (graph is None or form != "text"):
        raise CommandError("--forced is about a graph, in text", "drop --fsm and --format")
    if hints and (graph is None or form != "text" or forced):
        raise CommandError("--hints is about a graph, in text", "drop --fsm, --forced and --format")
    if output is not None:
        from sgc.cli.programs import split_name

        check_output(output, {} if graph is None else {"graph": split_name(graph)[0]})
    shown = "forced" if forced else "hints" if hints else form
    text = _graph(graph, shown) if graph is not None else _automaton(str(fsm), form)
    if output is None:
        print_result(text)
    else:
        with writing(output):
            write_atomically(output, text.encode())


def _graph(argument: str, form: str) -> str:
    from sgc.cli.graphs import load_graph
    from sgc.cli.notes import notes_on_stderr

    with notes_on_stderr():
        graph = load_graph(argument)
        if form == "forced":
            from sgc_ir.forced_runs import report

            return report(graph)
        if form == "hints":
            from sgc_ir.analysis import hints_report
            from sgc_ir.params import SamplingParams

            return hints_report.report(graph, SamplingParams())
        if form == "html":
            from sgc.cli.sources import program_files
            from sgc.page.build import inspect_page

            return inspect_page(graph, program_files(argument, graph))
        from sgc_ir.render import render

        return render(graph, form).rstrip("\n") + "\n"


def _automaton(pattern: str, form: str) -> str:
    """Raises CommandError for a pattern that cannot be used or is too large to be shown."""
    from sgc.cli.failure import CommandError
    from sgc_ir.automata.fsm_draw import render_fsm
    from sgc_ir.automata.fsm_view import view
    from sgc_ir.automata.regex import regex_automaton
    from sgc_ir.errors import ConstraintError

    try:
        return render_fsm(view(regex_automaton(pattern), MOST_STATES), form)
    except ConstraintError as error:
        raise CommandError(f"--fsm: {error}") from error
