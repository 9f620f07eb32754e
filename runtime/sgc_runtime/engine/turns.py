"""Turns of the oldest waiting request, which bound how long any request waits.

The clock counts prompt tokens that are scheduled (tokens out of the cache cost nothing and do not
count). Whenever it has gone on by `interval` since the last turn, the request that has waited
longest is called: until it is admitted nobody else is, and the order goes on from its place. So

    a request is admitted before the clock has gone on by
    (older + returns + 1) * (interval + pool) + pool

since its arrival, with `older` the requests that waited when it came, `returns` how often one that
is older was retracted meanwhile (never with `reserve=1`, nor with `hints`, see `safety`), and
`pool` the number of KV slots.

What is computed ahead of calls (`prefill_ahead`) does not count, as nobody waits then.

Proof: each turn ends with the admission of the oldest. At most `older + returns` of those are not
the request itself. While one is called, only what is in flight is computed, which has slots, so
at most `pool` tokens; and the admission that overshoots the interval has slots too. The called
one is admitted in the end: what is in flight ends after finitely many steps, and a request alone
always fits.
"""

from __future__ import annotations


class Turns:
    """The clock, and when the next turn is due."""

    def __init__(self, interval: int) -> None:
        self._interval = interval
        self._last = 0
        self.clock = 0

    @property
    def due(self) -> bool:
        """Whether the oldest goes first now."""
        return self.clock - self._last >= self._interval

    def take(self) -> None:
        """The oldest was admitted."""
        self._last = self.clock


def bound(older: int, returns: int, interval: int, pool: int) -> int:
    """Ticks of the clock within which a request is admitted; see above."""
    return (older + returns + 1) * (interval + pool) + pool
