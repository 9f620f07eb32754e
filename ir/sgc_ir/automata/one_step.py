"""What one thread finds out of an automaton in one go, with one limit of time for all of it."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sgc_ir.automata.pool import Pool


class OneStep:
    """See `Automaton.one_step`. A class, since there is one for each token that is sampled.

    Args:
        pool: its clock begins anew.
        threads: those that are inside.
    """

    __slots__ = ("_pool", "_threads")

    def __init__(self, pool: Pool, threads: set[int]) -> None:
        self._pool, self._threads = pool, threads

    def __enter__(self) -> None:
        self._pool.restart_clock()
        self._threads.add(get_ident())

    def __exit__(self, *_: object) -> None:
        self._threads.discard(get_ident())
