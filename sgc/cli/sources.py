"""Source lines of a program that a command has just run from its file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from sgc.cli.programs import is_source
from sgc_ir.graph import Program


def program_files(argument: str, program: Program) -> Mapping[str, Sequence[str]]:
    """Lines of the Python files that the graph names.

    Empty for an artefact: it may come from anywhere and name any file, and what it names is not
    to be put into a page.
    """
    if not is_source(argument):
        return {}
    names = {node.source.file for node in program.walk() if node.source.file.endswith(".py")}
    found: dict[str, Sequence[str]] = {}
    for name in sorted(names):
        with suppress(OSError):
            found[name] = Path(name).read_text("utf-8", errors="replace").splitlines()
    return found
