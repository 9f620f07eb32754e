"""Awaiting requests of the engine from an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from sgc_runtime.engine.engine import Engine
from sgc_runtime.engine.request import Outcome, Request


class Waiter:
    """Collects the outcomes of the requests of one call, on the running event loop.

    Give `on_done` to each request, then await `run`.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._outcomes: dict[Request, Outcome] = {}
        self._expected = 0
        self._error: Exception | None = None
        self._all: asyncio.Future[None] = self._loop.create_future()

    def on_done(self, request: Request, outcome: Outcome) -> None:
        """For the engine's thread."""
        self._engine.post(self._loop, self._note, request, outcome)

    def on_text(self, deliver: Callable[[str], None]) -> Callable[[str], None]:
        """A listener for the engine's thread that hands pieces to `deliver` on the loop, until
        the call is over."""

        def guarded(piece: str) -> None:
            if not self._all.done():
                deliver(piece)

        return lambda piece: self._engine.post(self._loop, guarded, piece)

    async def run(self, requests: Sequence[Request]) -> list[Outcome]:
        """Submit, wait for all; raises the first error. When cancelled, so are the requests."""
        if not requests:
            return []
        self._expected = len(requests)
        self._engine.submit(requests, self._loop)
        try:
            await self._all
            if self._error is not None:
                raise self._error
            return [self._outcomes[r] for r in requests]
        except BaseException:
            self._engine.cancel(requests)  # also those that are done: the call is not
            raise
        finally:  # requests hold this object: without a cycle they are freed at once
            self._outcomes, self._error = {}, None

    def _note(self, request: Request, outcome: Outcome) -> None:
        if self._all.done():
            return
        self._outcomes[request], self._error = outcome, outcome.error
        if self._error is not None or len(self._outcomes) == self._expected:
            self._all.set_result(None)
