"""Graphs for the subcommands: compiled from a program file, or read from an artefact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sgc.cli.failure import CommandError
from sgc.cli.programs import check_file, is_source, load_program, split_name

if TYPE_CHECKING:
    from sgc.compile import CompiledProgram
    from sgc_ir.graph import Program as Graphs


def compile_source(argument: str, static: Mapping[str, Any]) -> CompiledProgram:
    """Compile `PROGRAM.py[:function]` with the arguments `static` fixed.

    Raises CommandError, and CompileError or InputError when the program is refused.
    """
    path, _ = split_name(argument)
    check_file(path)
    if not is_source(argument):
        raise CommandError(f"{path} is not a Python file", "give PROGRAM.py or PROGRAM.py:function")
    return load_program(argument).compile(**static)


def load_graph(argument: str) -> Graphs:
    """The graphs of an artefact, or of a program that is compiled on the way.

    Raises CommandError, and ArtifactError for a file that is no artefact.
    """
    if is_source(argument):
        return compile_source(argument, {}).program
    from sgc_ir.codec import read_artifact

    path, _ = split_name(argument)
    check_file(path)
    return read_artifact(path)


def warnings_of(compiled: CompiledProgram) -> list[str]:
    """What the tracer warned of."""
    return [str(warning) for warning in compiled.program.notes.get("warnings", ())]
