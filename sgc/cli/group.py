"""The command `sgc` and its subcommands."""

from __future__ import annotations

from importlib import import_module

import click

# name -> (module below sgc.cli, one line for the list of commands)
COMMANDS = {
    "compile": ("compile", "Trace a program and write its graph."),
    "inspect": ("inspect", "Show a graph, or the automaton of a regex, as text or a picture."),
    "diff": ("diff", "Show what differs between two graphs."),
    "explain": ("explain", "Tell what a run will cost, before it runs."),
    "run": ("run", "Run a graph or program over input rows."),
    "eval": ("evaluate", "Run evaluation suites and report scores and costs."),
    "compare": ("compare", "Show what differs between two reports of `sgc eval`."),
    "models": ("models", "List, fetch and find models."),
}


class _LazyGroup(click.Group):
    """Imports a subcommand's module when it is called, so that `sgc --version` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"sgc.cli.{COMMANDS[cmd_name][0]}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(
    cls=_LazyGroup,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, _param, wanted: _print_version(ctx) if wanted else None,
    help="Show the version and exit.",
)
def cli() -> None:
    """Compile structured language-model programs to graphs, and run them."""


def _print_version(ctx: click.Context) -> None:
    from importlib import metadata

    try:
        version = metadata.version("sgc")
    except metadata.PackageNotFoundError:
        version = "(a checkout that is not installed)"
    click.echo(f"sgc {version}")
    ctx.exit()
