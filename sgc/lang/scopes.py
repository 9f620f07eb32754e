"""The `with` blocks of a state: a chat turn, a copy, a named piece of text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sgc.lang.primitives import check_name
from sgc.lang.source import refusal
from sgc_ir.graph import Source
from sgc_runtime.executor.cell import Cell, resolve

if TYPE_CHECKING:
    from sgc.lang.state import ProgramState


@contextmanager
def role_block(state: ProgramState, role: str, source: Source) -> Iterator[ProgramState]:
    """An open turn; it is closed also when the block raises."""
    state._check_open()
    if state._role is not None:
        raise refusal(
            f"{role} turn inside of an open {state._role} turn; roles do not nest", source
        )
    stream, bridge = state._stream, state._bridge
    bridge.post(lambda: stream.role_begin(role, source))
    state._role = role
    try:
        yield state
    except BaseException:
        state._role = None
        bridge.post_unwinding(lambda: stream.role_end(source))
        raise
    state._role = None
    bridge.post(lambda: stream.role_end(source))


@contextmanager
def branch_block(state: ProgramState, source: Source) -> Iterator[ProgramState]:
    """A branch of its own; nothing of it comes back."""
    from sgc.lang.state import ProgramState

    state._check_open()
    stream, note = state._stream, state._body.branches
    (child,) = state._bridge.ask(lambda: note(stream.fork(1, source, copy=True)))
    yield ProgramState(state._body, child, state._role)


@contextmanager
def text_scope(state: ProgramState, name: str) -> Iterator[None]:
    """Set variable `name` to the text that the block appends."""
    check_name("var_scope", name)
    stream, bridge = state._stream, state._bridge
    begin: Cell = bridge.ask(stream.text)
    yield
    bridge.post(lambda: stream.set(name, _text_between(begin, stream.text())))


def _text_between(begin: Cell, end: Cell) -> Cell:
    piece = Cell()

    def finish(both: Any, error: BaseException | None) -> None:
        if error is not None:
            piece.fail(error)
        else:
            before, after = both
            piece.set(after[len(before) :])

    resolve((begin, end), finish)
    return piece
