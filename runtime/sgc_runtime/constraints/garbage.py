"""Keeps Python's collections of garbage short while constraints grow."""

from __future__ import annotations

import gc
from functools import cache

_LONG_S = 0.01


@cache
def freeze_what_is_loaded() -> None:
    """Once a process: a collection would hold every thread for 0.1 s to look through what is
    loaded. What is garbage in cycles now would never be freed again, so it is collected before.
    """
    gc.collect()
    gc.freeze()


class LongCollections:
    """Notices full collections that take long, and has what they have looked through left alone
    from then on.

    A constraint that grows has hundreds of thousands of objects. A full collection looks at all of
    them, holds every thread for as long, and comes again when there are a quarter more. What is
    frozen is freed as ever when nothing holds it; only cycles are not, and those of constraints
    are dissolved (`Pool.dissolve`).
    """

    def __init__(self) -> None:
        self._seen = _num_full()

    def see(self, seconds: float) -> None:
        """Work took so much longer than it should: was that a collection?"""
        if seconds < _LONG_S:
            return
        before, self._seen = self._seen, _num_full()
        if self._seen > before:
            gc.freeze()


def _num_full() -> int:
    """Full collections so far."""
    return int(gc.get_stats()[2]["collections"])
