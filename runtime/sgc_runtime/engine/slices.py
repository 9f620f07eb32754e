"""Shares out the time of a step among the constraints of its requests.

Following a constraint takes microseconds as a rule, but a bad one may take seconds for a token. So
what has to be found out for a request (a mask, where a token leads, what is forced) gets a slice of
time; where that is not enough, the request stands aside: the steps go on without it, and each gives
those that stand aside, in turn, another slice. What was found is known from then on, so each slice
leads farther; one that leads nowhere is followed by a longer one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sgc_ir.automata.limits import SliceEnded
from sgc_runtime.constraints.garbage import LongCollections
from sgc_runtime.engine.metrics import Metrics
from sgc_runtime.engine.request import Request, State

FIRST_S = 0.005  # processor time of a request in one step
LONGEST_S = 0.010  # of one that gets farther
STEP_S = 0.010  # of all in one step, unless a single one needs more to get farther
GROWTH = 1.5
_LEAST_S = 0.0005  # of a second slice

# Does a part of the work in so many seconds, or raises `SliceEnded` and is called again; gives what
# is to be done then.
Work = Callable[[float], "Work | None"]


@dataclass(slots=True)
class _Aside:
    requests: Sequence[Request]
    work: Work
    seconds: float = 0.0


class Slices:
    """Does the work of requests, now or in later steps. Called in the engine's thread only.

    Args:
        fail: called with a request, of those whose work it is, and what went wrong with it.
    """

    def __init__(self, metrics: Metrics, fail: Callable[[Request, Exception], None]) -> None:
        self._metrics, self._fail = metrics, fail
        self._aside: deque[_Aside] = deque()
        self._left = STEP_S
        self._now = 0.0  # processor time at the end of the last work
        self._collections = LongCollections()

    def __len__(self) -> int:
        """How much work has not been done yet."""
        return len(self._aside)

    def begin(self) -> None:
        """Work follows, one piece behind the other: what else has taken time is not its own."""
        self._now = time.thread_time()

    def do(self, requests: Sequence[Request], work: Work) -> None:
        """Do the work of some requests (of one, or of those of one call), which stand aside until
        it is done; it may be done now. `begin` was called shortly before."""
        entry = _Aside(requests, work)
        if not self._is_done(entry, max(0.0, min(FIRST_S, self._left))):
            for request in requests:
                request.aside = True
            self._aside.append(entry)

    def go_on(self) -> None:
        """Begin a step: go on with what was not done in earlier ones, as far as the time reaches,
        but with one at least."""
        self._left = STEP_S
        self.begin()
        for turn in range(len(self._aside)):
            entry = self._aside[0]
            if turn > 0 and entry.seconds > self._left:
                break
            self._aside.popleft()
            if all(r.state is State.DONE for r in entry.requests):  # cancelled, or failed
                continue
            for request in entry.requests:
                request.aside = False
            if not self._is_done(entry, entry.seconds):
                for request in entry.requests:
                    request.aside = True
                self._aside.append(entry)
        self._metrics.aside_steps += len(self._aside)

    def _is_done(self, entry: _Aside, seconds: float) -> bool:
        """Spend `seconds` on it; False where that is not enough."""
        begin, left = self._now, seconds  # a reading of the clock takes as long as short work
        found = _num_found(entry.requests) if entry.seconds else 0
        try:
            work = entry.work(left)
            while work is not None:
                entry.work = work
                left = max(0.0, seconds - (time.thread_time() - begin))
                work = work(left)
        except SliceEnded:
            self._put_off(entry, seconds, found)
            return False
        except Exception as exc:
            for request in entry.requests:
                self._fail(request, exc)
        finally:
            self._now = time.thread_time()
            taken = self._now - begin
            self._left -= taken
            self._collections.see(taken - seconds)
        return True

    def _put_off(self, entry: _Aside, seconds: float, found: int) -> None:
        """Choose the next slice."""
        grown = max(GROWTH * seconds, FIRST_S, _LEAST_S)
        if _num_found(entry.requests) > found:
            grown = min(grown, max(seconds, LONGEST_S))
        entry.seconds = grown


def _num_found(requests: Sequence[Request]) -> int:
    return sum(r.guide.matcher.num_found for r in requests if r.guide is not None)
