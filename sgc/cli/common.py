"""Options that several subcommands have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from sgc.cli.failure import CommandError
from sgc.cli.output import standard_output

F = TypeVar("F", bound=Callable[..., Any])


def debug_option(function: F) -> F:
    """`--debug`; `sgc.cli.main` looks for it itself."""
    return click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        help="Show a traceback before the line that says what went wrong.",
    )(function)


def quiet_option(text: str) -> Callable[[F], F]:
    return click.option("--quiet", is_flag=True, help=text)


def print_result(text: str) -> None:
    """Write a result to standard output. Raises CommandError when that fails.

    `click.echo` would end the process itself, without a word, where a pipe has no reader.
    """
    output = standard_output()
    try:
        output.write(text)
        output.flush()
    except OSError as error:
        cause = f"cannot write standard output: {error.strerror or error}"
        raise CommandError(cause, "write to a file, or keep the reader open") from error


PATH = click.Path(path_type=Path)
