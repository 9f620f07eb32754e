"""`sgc explain`: what a run over rows will ask for, before it runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sgc.cli.common import PATH, debug_option, print_result
from sgc.cli.failure import CommandError

if TYPE_CHECKING:
    from sgc.page.timeline import Timeline
    from sgc_ir.graph import Program as Graphs


@click.command(short_help="Tell what a run will cost, before it runs.")
@click.argument("graph", metavar="G.sgc|PROGRAM.py[:FUNCTION]")
@click.option(
    "--inputs", required=True, metavar="ROWS", help="JSONL, JSON or CSV file, or - for JSONL."
)
@click.option("--model", metavar="M", help="Count this model's tokens; without it, words.")
@click.option(
    "--max-tokens",
    type=click.IntRange(min=1),
    default=128,
    help="Of gens that set none. Default: 128.",
)
@click.option(
    "--prices",
    type=PATH,
    metavar="FILE.toml",
    help="Money for a million tokens: a table a model, with input, output and cached_input.",
)
@click.option(
    "--analyze",
    type=PATH,
    metavar="STATS.json",
    help="Numbers of such a run (`sgc run --stats`): show planned against actual.",
)
@click.option(
    "--rates",
    type=PATH,
    metavar="STATS.json",
    help="Numbers of a run (`sgc run --stats`) whose tokens a second the expected time comes from; "
    "without it those of --analyze.",
)
@click.option(
    "--trace",
    type=PATH,
    metavar="T.json",
    help="Timeline of such a run (`sgc run --trace`), for the page of --format html.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "html"]),
    default="text",
    help="html is one page with the graph, its costs and the timeline; it needs no network. "
    "Default: text.",
)
@click.option("-o", "--output", type=PATH, metavar="FILE", help="File instead of standard output.")
@debug_option
def command(
    graph: str,
    inputs: str,
    model: str | None,
    max_tokens: int,
    prices: Path | None,
    analyze: Path | None,
    rates: Path | None,
    trace: Path | None,
    form: str,
    output: Path | None,
) -> None:
    """Print calls, prompt tokens, shareable tokens, the best hit rate, bounds of the output and
    memory, node by node and in total.

    Ranges go from what happens for certain, with shortest texts, to all paths with longest texts.
    Nothing runs: no model is loaded, only its tokenizer and sizes. A row that does not fit the
    program is an error.
    """
    from sgc.cli.explained import compare, plain, text
    from sgc.cli.graphs import load_graph
    from sgc.cli.notes import notes_on_stderr
    from sgc.cli.prices import add_money, read_prices
    from sgc.cli.rates import add_time, measured
    from sgc.cli.stats_file import read_stats
    from sgc.cli.token_encoding import counting
    from sgc_ir.analysis.forecast import forecast
    from sgc_ir.params import SamplingParams

    if trace is not None and form != "html":
        raise CommandError("--trace is for a page", "add --format html")
    _check_output(output, graph, inputs, prices, analyze, rates, trace)
    stats = None if analyze is None else read_stats(analyze, "--analyze")
    rated = stats if rates is None else read_stats(rates, "--rates")
    timeline = None if trace is None else _read_timeline(trace)
    priced = {} if prices is None else read_prices(prices)
    with notes_on_stderr():
        program = load_graph(graph)
    rows = list(_rows(program, inputs))
    count = counting(model)
    defaults = SamplingParams(max_tokens=max_tokens)
    found = forecast(program, rows, count.encoding, count.renderer, defaults)
    result = plain(found, count.unit, count.kv_bytes)
    add_money(result, found, priced)
    if stats is not None:
        result["actual"] = compare(result, stats)
    if rated is not None:
        add_time(result, measured(rated))
    if form == "html":
        from sgc.cli.figures import figures
        from sgc.cli.sources import program_files
        from sgc.page.build import explain_page

        shown = figures(result, stats)
        page = explain_page(program, result, shown, program_files(graph, program), timeline)
        return _put(page, output)
    _put(text(result) if form == "text" else json.dumps(result, indent=1) + "\n", output)


def _check_output(output: Path | None, graph: str, inputs: str, *others: Path | None) -> None:
    from sgc.cli.output import check_output
    from sgc.cli.programs import split_name

    taken = {"graph": split_name(graph)[0], "input": None if inputs == "-" else Path(inputs)}
    names = ("prices", "statistics", "rates", "trace")
    check_output(output, taken | dict(zip(names, others, strict=True)))


def _put(text: str, output: Path | None) -> None:
    from sgc.cli.output import writing
    from sgc.files import write_atomically

    if output is None:
        return print_result(text)
    with writing(output):
        write_atomically(output, text.encode())


def _rows(program: Graphs, source: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    from sgc.cli.inputs import Inputs
    from sgc.cli.values import cell_converter
    from sgc_ir.errors import InputError
    from sgc_runtime.executor.arguments import Signature

    signature = Signature(program.main, program.graph.params)
    rows = Inputs(source, cell_converter(program.graph.params))
    rows.count()  # refuses what cannot be read
    for row in rows.rows():
        if row.arguments is None:
            raise CommandError(f"{row.place}: {row.problem}", "mend the row, or drop it")
        try:
            yield row.index, signature.arguments((), row.arguments)
        except InputError as error:
            raise CommandError(f"{row.place}: {error}", "mend the row, or drop it") from error


def _read_timeline(path: Path) -> Timeline:
    from sgc.page.timeline import Timeline
    from sgc.page.trace import TraceError, read_trace

    form = "give a file of `sgc run --trace`"
    try:
        with path.open(encoding="utf-8") as lines:
            return Timeline(read_trace(lines))
    except OSError as error:
        raise CommandError(f"--trace {path}: {error.strerror or error}", form) from error
    except (TraceError, UnicodeDecodeError) as error:
        raise CommandError(f"--trace {path}: {error}", form) from error
