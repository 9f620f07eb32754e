"""Runs the command line, and turns every error into one line and an exit code.

The modules that do the work are imported inside `main`, so that an interrupt while they load is
answered like any other.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: that of the process) and give the exit code."""
    _occupy_standard_descriptors()
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        from sgc.cli import failure
        from sgc.cli.group import cli
    except KeyboardInterrupt:
        if sys.stderr is not None:
            print("sgc: error: interrupted", file=sys.stderr)
        return 130
    try:
        code = cli.main(arguments, prog_name="sgc", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code if isinstance(code, int) else failure.OK
    except (Exception, KeyboardInterrupt) as error:
        failure.report(error, "--debug" in arguments)
        _drop_stdout_if_broken()
        return failure.exit_code(error)


def _occupy_standard_descriptors() -> None:
    """Open those that the process was started without, so that no other file gets their numbers,
    to which libraries and the engine's process print."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # takes the lowest number


def _drop_stdout_if_broken() -> None:
    # Python flushes standard output when it ends, and complains if that fails once more.
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
