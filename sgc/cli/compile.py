"""`sgc compile`: trace a program and write its graph as an artefact."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sgc.cli.breaks import explaining
from sgc.cli.common import PATH, debug_option, print_result, quiet_option
from sgc.cli.passes import (
    asked_for,
    check_outputs,
    chosen,
    context,
    explain,
    help_text,
    names_of,
)
from sgc.cli.reorder import ReorderOptions, reorder_options


@click.command(short_help="Trace a program and write its graph.")
@click.argument("program", metavar="PROGRAM.py[:FUNCTION]")
@click.option("-o", "--output", type=PATH, required=True, metavar="G.sgc", help="File to write.")
@click.option(
    "--bind",
    multiple=True,
    metavar="NAME=JSON",
    help="Fix an argument while compiling; may be given again.",
)
@click.option(
    "--tokenizer",
    metavar="M",
    help="Make the automata and first masks of the program's constraints for model M, so that runs "
    "find them, and check max_tokens against them.",
)
@click.option("--passes", "listed", metavar="LIST", help=help_text())
@click.option(
    "--explain-passes", "explained", is_flag=True, help="Print what each pass did, node by node."
)
@click.option(
    "--explain-breaks",
    is_flag=True,
    help="Of a program that is refused, print all parts that are not compiled: where and why.",
)
@click.option(
    "--outputs",
    metavar="A,B",
    help="Variables that matter, instead of those that the source declares: calls that neither "
    "these nor the result, the text, the messages and effects of tools need are left out.",
)
@click.option(
    "--merge",
    is_flag=True,
    help="Pass `merge`: equal pure tool calls and equal sub-programs and branches without random "
    "sampling run once.",
)
@reorder_options
@quiet_option("Say nothing when it worked.")
@debug_option
def command(
    program: str,
    output: Path,
    bind: tuple[str, ...],
    tokenizer: str | None,
    listed: str | None,
    explained: bool,
    explain_breaks: bool,
    outputs: str | None,
    merge: bool,
    quiet: bool,
    **motion: Any,
) -> None:
    """Trace PROGRAM and write its graph to a file that runs without the program's source.

    A program that cannot be compiled is refused with file, line and expression, and nothing is
    written. Without FUNCTION it is the program named like the file, else the only one in it.
    """
    from sgc.cli.failure import say
    from sgc.cli.graphs import compile_source
    from sgc.cli.notes import notes_on_stderr
    from sgc.cli.output import check_output, writing
    from sgc.cli.programs import split_name
    from sgc.cli.values import parse_bindings

    values = parse_bindings(bind)
    options = ReorderOptions(**motion)
    passes = chosen(listed, asked_for(outputs, merge, options.reorder))
    declared = names_of(outputs)
    check_output(output, {"program": split_name(program)[0]})
    with notes_on_stderr(quiet):
        known = options.informed(context(passes, tokenizer))
        with explaining(explain_breaks, program, values):
            compiled = compile_source(program, values, passes, known, declared)
        compiled = options.settle(compiled, known, quiet)
    check_outputs(compiled.graph, declared)
    if tokenizer is not None:
        from sgc.cli.prepare import prepare

        prepare(compiled.graph, tokenizer, quiet)
    with writing(output):
        compiled.save(output)
    if explained:
        print_result(explain(compiled.reports))
    if not quiet:
        size = output.stat().st_size
        nodes = sum(len(graph.nodes) for graph in compiled.graph.graphs.values())
        say(f"sgc: wrote {output}: {compiled.graph.main}, {nodes} nodes, {size:,} bytes")
