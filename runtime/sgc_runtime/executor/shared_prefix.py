"""Backend streams that open late and share what was said before a fork."""

from __future__ import annotations

from sgc_runtime.executor.backend import BackendStream, Piece
from sgc_runtime.executor.context import RunContext


class SharedPrefix:
    """A prompt that several streams go on from; opened on the backend when the first one calls.

    Each user either takes its own backend stream (`take`) or gives up (`release`); the last one
    to take gets the shared stream itself, the others forks of it.
    """

    __slots__ = ("_base", "_ctx", "_pieces", "_stream", "_users")

    def __init__(
        self,
        ctx: RunContext,
        base: SharedPrefix | None,
        stream: BackendStream | None,
        pieces: list[Piece],
    ) -> None:
        self._ctx = ctx
        self._base = base
        self._stream = stream
        self._pieces = pieces
        self._users = 1

    def join(self) -> SharedPrefix:
        """One more user."""
        self._users += 1
        return self

    def take(self) -> BackendStream:
        """A backend stream of the caller's own, with this prompt. The backend must be loaded."""
        stream = self._opened()
        self._users -= 1
        if self._users:
            return self._ctx.opened(stream.fork())
        self._stream = None
        return stream

    def release(self) -> None:
        """One user less."""
        prefix: SharedPrefix | None = self
        while prefix is not None:
            prefix._users -= 1
            if prefix._users:
                return
            if prefix._stream is not None:
                self._ctx.closed(prefix._stream)
                return
            prefix = prefix._base

    def _opened(self) -> BackendStream:
        unopened: list[SharedPrefix] = []  # a loop, since forks may be nested without bound
        prefix: SharedPrefix | None = self
        while prefix is not None and (prefix._stream is None or prefix._pieces):
            unopened.append(prefix)
            prefix = prefix._base
        for prefix in reversed(unopened):
            prefix._open()
        assert self._stream is not None
        return self._stream

    def _open(self) -> None:
        if self._stream is None:
            self._stream = open_stream(self._ctx, self._base)
            self._base = None
        if self._pieces:
            self._stream.append(self._pieces)
            self._pieces = []


def open_stream(ctx: RunContext, base: SharedPrefix | None) -> BackendStream:
    """A backend stream that goes on from `base`, or an empty one."""
    if base is not None:
        return base.take()
    backend = ctx.source.backend
    assert backend is not None, "a stream was opened before the backend was loaded"
    return ctx.opened(backend.open())
