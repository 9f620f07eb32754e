"""Options that several subcommands have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

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


PATH = click.Path(path_type=Path)
