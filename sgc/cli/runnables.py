"""Programs for `sgc run`: a program file, or an artefact."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from sgc.cli.failure import CommandError
from sgc.cli.programs import artifact_path, is_source, load_program
from sgc_ir.errors import CompileError, ToolError
from sgc_ir.graph import Param

if TYPE_CHECKING:
    from sgc.program import Program
    from sgc.runnable import Runnable


def load_runnable(argument: str) -> Runnable:
    """The program of `PROGRAM.py[:function]` or of an artefact.

    Raises CommandError, also for a tool that is not registered, and ArtifactError.
    """
    if is_source(argument):
        return load_program(argument)
    from sgc.compile import load

    path = artifact_path(argument)
    try:
        return load(path)
    except ToolError as error:
        cause = str(error).partition(";")[0]
        raise CommandError(f"{path}: {cause}", "give the file that has it with --tools") from error


def as_written(program: Runnable) -> Runnable:
    """The program with its texts in the order as written, where a pass has changed that.

    Raises ArtifactError where the artefact's record of it cannot be read.
    """
    from sgc.compile import CompiledProgram
    from sgc_ir.passes.reorder import restore

    if not isinstance(program, CompiledProgram):
        return program
    return CompiledProgram(restore(program.graph), program.tools.values(), program.reports)


def params_of(program: Runnable) -> tuple[Param, ...]:
    """The parameters that rows may give."""
    from sgc.compile import CompiledProgram
    from sgc.program import Program

    if isinstance(program, CompiledProgram):
        return program.graph.graph.params
    assert isinstance(program, Program)
    return program.spec.params


def settle_mode(program: Runnable, mode: str) -> tuple[Runnable, str]:
    """What runs in mode `auto`, `compiled` or `interpreted`, and in which of them.

    Compiles a program once, so that it is known before the run whether a model is needed; one
    that is refused runs in compiled parts, in mode `auto`. Raises CompileError for a refused
    program in mode `compiled`.
    """
    from sgc.program import Program

    if not isinstance(program, Program) or mode == "interpreted":
        return program, mode
    try:
        return program.compile(), "compiled"
    except CompileError:
        if mode == "compiled":
            raise
        return program, mode


def needs_model(program: Runnable) -> bool:
    """Whether the model is loaded before the first row.

    For an interpreted program this is a guess from the text of its file: where it is wrong, the
    model loads at the first call.
    """
    from sgc.compile import CompiledProgram
    from sgc.planning import model_calls
    from sgc.program import Program

    if isinstance(program, Program):
        return _mentions_model(program)
    assert isinstance(program, CompiledProgram)
    return model_calls(program.graph) > 0


def _mentions_model(program: Program) -> bool:
    try:
        text = Path(program.spec.file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return re.search(r"\b(gen|select)\b", text) is not None
