"""`sgc models`: the named models, and where they lie on this machine."""

from __future__ import annotations

import json
from typing import Any

import click

from sgc.cli.common import debug_option, print_result, quiet_option
from sgc.cli.failure import on_terminal


@click.group(short_help="List, fetch and find models.", no_args_is_help=False)
def command() -> None:
    """List, fetch and find the models that have a name.

    `--model` also takes a local Hugging Face directory, a .gguf file or a hub id.
    """


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@debug_option
def list_command(as_json: bool) -> None:
    """Print all named models and whether they are on this machine."""
    from sgc_runtime.models import list_models

    rows = [
        {
            "name": status.model.name,
            "description": status.model.description,
            "license": status.model.license,
            "megabytes": round(status.model.file.num_bytes / 1e6),
            "fetched": status.fetched,
            "path": str(status.path),
        }
        for status in list_models()
    ]
    if as_json:
        print_result(json.dumps(rows, indent=2) + "\n")
        return
    print_result("".join(_line(row) for row in rows))


def _line(row: dict[str, Any]) -> str:
    state = row["path"] if row["fetched"] else "not fetched"
    return (
        f"{row['name']}  {row['description']}, {row['license']}, {row['megabytes']} MB  [{state}]\n"
    )


@command.command("fetch")
@click.argument("name")
@quiet_option("No progress bar.")
@debug_option
def fetch_command(name: str, quiet: bool) -> None:
    """Download the model NAME, check it, and print its path."""
    from sgc.cli.model_progress import fetching
    from sgc_runtime.models import fetch

    with fetching(name, quiet or not on_terminal()) as progress:
        place = fetch(name, progress)
    print_result(f"{place}\n")


@command.command("path")
@click.argument("name")
@debug_option
def path_command(name: str) -> None:
    """Print where the fetched model NAME lies."""
    from sgc_runtime.models import path

    print_result(f"{path(name)}\n")
