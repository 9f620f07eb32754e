"""Tells the backend what is known of a prompt while its stream waits for something else."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sgc_ir.errors import BackendError
from sgc_runtime.executor.backend import Text
from sgc_runtime.executor.cell import Cell

if TYPE_CHECKING:
    from sgc_runtime.executor.core import StreamCore


def tell_ahead(core: StreamCore, lead: Sequence[Any]) -> None:
    """The stream waits for a value; calls of it or of its branches may come.

    Nothing is told where a graph does not say that they do, and nothing is decided: what the
    prompt is, the call finds out.

    Args:
        lead: texts, and Cells that may hold some, with which the value begins.
    """
    life, backend = core.life, core.ctx.source.backend
    if life is None or backend is None or not getattr(backend, "takes_hints", False):
        return
    if not life.open and life.calls <= 0:
        return
    pieces = core.prompt.ahead(backend.chat_template, _known(lead))
    if pieces is None:
        return
    known: list[list[Any]] = []
    for piece in pieces:
        if not isinstance(piece, Text):
            break
        known.append([piece.text, piece.control])
    with suppress(BackendError):  # of media, which the call says again
        core.hint_ahead(known)


def _known(lead: Sequence[Any]) -> str:
    found: list[str] = []
    for part in lead:
        value = part.value if isinstance(part, Cell) and part.done else part
        if not isinstance(value, str):
            break
        found.append(value)
    return "".join(found)
