"""Notices what a program reads from outside while it is compiled: files, sockets, processes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import TYPE_CHECKING, Any

from sgc.trace.refusal import is_rewritten

if TYPE_CHECKING:
    from sgc.trace.context import Trace

_EVENTS = {
    "open": "opens a file",
    "socket.connect": "opens a connection",
    "subprocess.Popen": "starts a process",
    "os.system": "starts a process",
    "os.listdir": "lists a directory",
    "os.scandir": "lists a directory",
}
# Reading a source, and turning a type into a JSON schema (where pydantic looks for plugins, the
# first time in a process), are the compiler's own work.
_OWN = frozenset(
    "importlib._bootstrap linecache tokenize sgc.trace.source sgc_ir.automata.schema.source".split()
)
_ACTIVE: ContextVar[Trace | None] = ContextVar("sgc_audited_trace", default=None)
_installed = False


@contextmanager
def audited(trace: Trace) -> Iterator[None]:
    """Add a warning to `trace` for each such event that rewritten code causes in the block."""
    global _installed
    if not _installed:
        sys.addaudithook(_hook)
        _installed = True
    token = _ACTIVE.set(trace)
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def _hook(event: str, args: tuple[Any, ...]) -> None:
    what = _EVENTS.get(event)
    if what is None:
        return
    trace = _ACTIVE.get()
    if trace is not None and _is_of_program(sys._getframe(1)):
        trace.warn(f"{what} while it is compiled; what it reads is baked into the graph")


def _is_of_program(frame: FrameType | None) -> bool:
    """Whether the event comes from the program, and not from an import or from the compiler."""
    while frame is not None and not is_rewritten(frame.f_code):
        if frame.f_globals.get("__name__", "") in _OWN:
            return False
        frame = frame.f_back
    return frame is not None
