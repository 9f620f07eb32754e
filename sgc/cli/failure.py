"""How the command fails: one line on standard error and the exit code that goes with it."""

from __future__ import annotations

import errno
import sys
import traceback

import click

from sgc_ir.errors import BackendError, ModelError, SgcError

OK = 0
FAILED = 1  # some rows failed, or something unforeseen happened
WRONG_USAGE = 2  # wrong usage, a refused program, unreadable inputs, unwritable output
UNAVAILABLE = 3  # a backend or model is not to be had
INTERRUPTED = 130


class CommandError(Exception):
    """Wrong usage or a file that cannot be used.

    Args:
        cause: what is wrong, with the place.
        advice: what to do next.
    """

    def __init__(self, cause: str, advice: str = "", code: int = WRONG_USAGE) -> None:
        super().__init__(f"{cause}; {advice}" if advice else cause)
        self.code = code


def exit_code(error: BaseException) -> int:
    """The exit code for an error that ended the command."""
    if isinstance(error, CommandError):
        return error.code
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return INTERRUPTED
    if isinstance(error, BackendError | ModelError):
        return UNAVAILABLE
    if isinstance(error, SgcError | click.ClickException | OSError):
        return WRONG_USAGE
    return FAILED


def report(error: BaseException, debug: bool = False) -> None:
    """Say on standard error what ended the command; with `debug` the traceback comes first."""
    if debug:
        traceback.print_exception(error)
    say(f"sgc: error: {one_line(message_of(error))}")


def message_of(error: BaseException) -> str:
    """Cause and next step."""
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return "interrupted"
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx is not None else "sgc"
        return f"{error.format_message().rstrip('.')}; see `{command} --help`"
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, OSError) and error.strerror:
        name = f"{error.filename}: " if error.filename else ""
        return (
            f"{name}{error.strerror}; {advice(error, 'check the path and the space on the disk')}"
        )
    if isinstance(error, SgcError | CommandError):
        return str(error)
    return f"internal error: {type(error).__name__}: {error}; run again with --debug and report it"


def advice(error: OSError, usual: str) -> str:
    """The next step after an error of the system: `usual`, unless the process has run out of
    what all its files need."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "raise the limit of open files (ulimit -n)"
    return usual


def one_line(text: str) -> str:
    """`text` with its line breaks, of every kind, turned into blanks."""
    return " ".join(text.splitlines()).strip()


def on_terminal() -> bool:
    """Whether standard error is a terminal; there may be none at all."""
    return sys.stderr is not None and sys.stderr.isatty()


def say(line: str) -> None:
    """Write a line to standard error, where there is one."""
    if sys.stderr is not None:
        print(line, file=sys.stderr, flush=True)
