"""`sgc diff`: what differs between two graphs, node by node."""

from __future__ import annotations

import click

from sgc.cli.common import debug_option, print_result


@click.command(short_help="Show what differs between two graphs.")
@click.argument("first", metavar="A.sgc")
@click.argument("second", metavar="B.sgc")
@debug_option
def command(first: str, second: str) -> int:
    """Print the nodes in which B differs from A, in the text form, under the path of the first.

    Numbers of nodes and source lines are left aside. Either may be a program, PROGRAM.py or
    PROGRAM.py:FUNCTION, that is compiled on the way. Exit code: 0 no difference, 1 some.
    """
    from sgc.cli.graphs import load_graph
    from sgc.cli.notes import notes_on_stderr
    from sgc_ir.difference import differences

    with notes_on_stderr():
        found = differences(load_graph(first), load_graph(second))
    print_result("".join(f"{difference}\n" for difference in found) or "no difference\n")
    return 1 if found else 0
