"""Every error that sgc raises on purpose.

    SgcError
    +-- CompileError      a program, graph or constraint is refused (file, line)
    +-- ConstraintError   a regex, JSON schema or grammar cannot be used (kind says why)
    +-- ArtifactError     bytes or text that are not a graph of this version
    +-- GenerationError   a node of a running program failed (program, instance, node, source)
    +-- ToolError         a Python tool raised, or is not registered
    +-- BackendError      a backend failed or refuses what was asked of it
    |   +-- RecordError   a record of backend calls cannot be written, read, or lacks a call
    +-- DeadlineError     a node or a row took too long (a TimeoutError as well)
    +-- ModelError        a model or tokenizer cannot be loaded
    +-- JournalError      a run's journal cannot be written, read or continued
    +-- InputError        an argument or input row is missing, unknown or of the wrong type
    |   +-- EvalDataError the data of an evaluation suite lack a file or column
    +-- ExprError         an expression leaves the closed, bounded set of `sgc_ir.expr`
    +-- ProgramError      a compiled program raised an exception of a class of its own

Each message is one line: cause, place, next step.
"""

from __future__ import annotations


class SgcError(Exception):
    """Root of all errors of sgc."""


class CompileError(SgcError):
    """A program that cannot be compiled, or a construct that is refused.

    Args:
        message: cause and advice, without the place.
        file: the user's source file, or None.
        line: 1-based line in `file`, or None.
    """

    def __init__(self, message: str, file: str | None = None, line: int | None = None) -> None:
        self.reason = message
        self.file = file
        self.line = line
        place = f"{file}:{line}: " if file is not None and line is not None else ""
        super().__init__(place + message)


class ConstraintError(SgcError):
    """A regular expression, JSON schema or grammar that cannot be used.

    Args:
        message: cause and next step, without the place.
        kind: "malformed"; "unsupported", a construct that is refused by name; "unsatisfiable",
            no text is legal; "limit", too large or too slow to compile.
        where: place inside the constraint (a JSON pointer, a position, a rule), or "".
    """

    def __init__(self, message: str, *, kind: str = "limit", where: str = "") -> None:
        self.reason = message
        self.kind = kind
        self.where = where
        super().__init__(f"{where}: {message}" if where else message)


class ArtifactError(SgcError):
    """Bytes or text that cannot be read as a graph."""


class GenerationError(SgcError):
    """A node of a running program failed; the cause is in `__cause__`.

    Args:
        message: what happened, without the place.
        program: name of the program that holds the node.
        instance: index of the input row (0 for a single run).
        node: dynamic path of the node, for example `f0[2]/g1`.
        source: `FILE:LINE` of the statement, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        program: str = "",
        instance: int = 0,
        node: str = "",
        source: str | None = None,
    ) -> None:
        self.reason = message
        self.program = program
        self.instance = instance
        self.node = node
        self.source = source
        place = f" at {source}" if source else ""
        super().__init__(f"{program}[{instance}] node {node}{place}: {message}")


class ToolError(SgcError):
    """A tool raised, is not registered, or gave something that is not JSON data."""


class BackendError(SgcError):
    """A backend failed, cannot be had, or refuses a parameter by name."""


class RecordError(BackendError):
    """A record of backend calls cannot be written or read, or holds no answer to a call."""


class DeadlineError(SgcError, TimeoutError):
    """A node or a row took longer than its deadline."""


class ModelError(SgcError):
    """A model file or tokenizer is missing, damaged or of an unknown kind."""


class JournalError(SgcError):
    """A journal that is damaged, in use, or of another run, or that cannot be written."""


class InputError(SgcError):
    """An argument is missing, unknown or of the wrong type."""


class EvalDataError(InputError):
    """A file of an evaluation suite is missing, cannot be read, or lacks a column."""


class ExprError(SgcError):
    """An expression's result would be too large, or a format template asks for an attribute."""


class ProgramError(SgcError):
    """A compiled program raised an exception of a class of its own, whose name begins the text."""
