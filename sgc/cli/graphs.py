"""Graphs for the subcommands: compiled from a program file, or read from an artefact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sgc.cli.failure import CommandError
from sgc.cli.programs import artifact_path, check_file, is_source, load_program, split_name

if TYPE_CHECKING:
    from sgc.compile import CompiledProgram
    from sgc_ir.graph import Program as Graphs
    from sgc_ir.passes.base import Context


def compile_source(
    argument: str,
    static: Mapping[str, Any],
    passes: Sequence[str] | None = None,
    context: Context | None = None,
    outputs: tuple[str, ...] | None = None,
) -> CompiledProgram:
    """Compile `PROGRAM.py[:function]` with the arguments `static` fixed.

    Args:
        passes, context: see `sgc.compile.compile_spec`.
        outputs: declared outputs, instead of those in the source.

    Raises CommandError, and CompileError or InputError when the program is refused.
    """
    from sgc.compile import compile_spec

    path, _ = split_name(argument)
    check_file(path)
    if not is_source(argument):
        raise CommandError(f"{path} is not a Python file", "give PROGRAM.py or PROGRAM.py:function")
    spec = load_program(argument).spec.bind(static)
    if outputs is not None:
        spec = replace(spec, outputs=outputs)
    return compile_spec(spec, passes, context)


def load_graph(argument: str) -> Graphs:
    """The graphs of an artefact, or of a program that is compiled on the way.

    Raises CommandError, and ArtifactError for a file that is no artefact.
    """
    if is_source(argument):
        return compile_source(argument, {}).graph
    from sgc_ir.codec import read_artifact

    return read_artifact(artifact_path(argument))
