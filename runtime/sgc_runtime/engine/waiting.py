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
        self._expected = len(requests)
        if requests:
            self._engine.submit(requests)
            try:
                await self._all
            except BaseException:
                self._engine.cancel(requests)  # also those that are done: the call is not
                raise
        return [self._outcomes[r] for r in requests]

    def _note(self, request: Request, outcome: Outcome) -> None:
        self._outcomes[request] = outcome
        if self._all.done():
            return
        if outcome.error is not None:
            self._all.set_exception(outcome.error)
        elif len(self._outcomes) == self._expected:
            self._all.set_result(None)
