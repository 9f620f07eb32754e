"""Where in the user's program a primitive stands."""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import lru_cache
from types import FrameType

from sgc_ir.errors import CompileError
from sgc_ir.graph import Source

_OWN_PREFIXES = ("sgc.lang.", "sgc.higher.", "sgc.trace.", "sgc_ir.", "sgc_runtime.")
_OWN_MODULES = frozenset(
    {"sgc", "sgc.program", "sgc.runnable", "sgc.compile", "contextlib", "functools"}
)


@lru_cache(maxsize=1024)
def shown_file(file: str) -> str:
    """How messages and artefacts name a code file: relative where it lies below the working
    directory, so that a program gives the same artefact on another machine."""
    if not os.path.isabs(file):
        return file
    relative = os.path.relpath(file)
    return file if relative.startswith(os.pardir) else relative


def source_at(file: str, line: int) -> Source:
    """The place `line` of the code file `file`."""
    return Source(shown_file(file), line)


def is_own_module(module: str) -> bool:
    """Whether a module belongs to the language itself; programs that come with sgc do not."""
    return module in _OWN_MODULES or module.startswith(_OWN_PREFIXES)


def _own(frame: FrameType) -> bool:
    return is_own_module(frame.f_globals.get("__name__", ""))


def caller_source() -> Source:
    """The line of the innermost frame outside of sgc; an empty Source when there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _own(frame):
        frame = frame.f_back
    return source_at(frame.f_code.co_filename, frame.f_lineno) if frame is not None else Source()


def refusal(message: str, source: Source | None = None) -> CompileError:
    """A CompileError at `source`, by default at the user's line that called."""
    place = source if source is not None else caller_source()
    return CompileError(message, place.file or None, place.line or None)


def raised_at(error: BaseException) -> Source:
    """The innermost line of user code in the traceback of `error`, or an empty Source."""
    found = Source()
    trace = error.__traceback__
    while trace is not None:
        if not _own(trace.tb_frame) and not is_library(trace.tb_frame.f_code.co_filename):
            found = source_at(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return found


@lru_cache(maxsize=256)
def is_library(file: str) -> bool:
    """Whether a code file is Python's own or an installed package's."""
    folders = [sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")]
    return file.startswith(tuple(folder + os.sep for folder in folders))
