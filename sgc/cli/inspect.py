"""`sgc inspect`: show a graph in a form that people or other tools read."""

from __future__ import annotations

from pathlib import Path

import click

from sgc.cli.common import PATH, debug_option, print_result

FORMATS = ("text", "mermaid", "dot", "svg", "json")


@click.command(short_help="Show a graph as text, mermaid, dot, svg or json.")
@click.argument("graph", metavar="G.sgc|PROGRAM.py[:FUNCTION]")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", help="Default: text.")
@click.option("-o", "--output", type=PATH, metavar="FILE", help="File instead of standard output.")
@debug_option
def command(graph: str, form: str, output: Path | None) -> None:
    """Print the graph of an artefact, or of a program that is compiled on the way."""
    from sgc.cli.graphs import load_graph
    from sgc.cli.notes import notes_on_stderr
    from sgc.cli.output import check_output, writing
    from sgc.cli.programs import split_name
    from sgc.files import write_atomically
    from sgc_ir.render import render

    check_output(output, {"graph": split_name(graph)[0]})
    with notes_on_stderr():
        text = render(load_graph(graph), form).rstrip("\n") + "\n"
    if output is None:
        print_result(text)
    else:
        with writing(output):
            write_atomically(output, text.encode())
