"""Threads for jobs of which most are short: one that takes long is no obstacle to any other thread.

Each job begins in the quick lane. After some processor time it goes on in the slow lane, where few
run at once, with a small share of the time: Python runs one thread at a time, and one that
computes lets another one have its turn after 5 ms only, of which a step of the engine takes many.
Where the slow lane is full, the job is cut off, and begun anew when there is room.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue

from sgc_ir.automata.limits import at_each_look
from sgc_runtime.constraints.garbage import LongCollections

QUICK_S = 0.05  # processor time of a job in the quick lane
_STUCK_S = 0.5  # wall-clock time after which one counts as slow that does not look at the clock
_IDLE_S = 10.0  # after which a thread without work ends
_BURST_S = {False: 0.002, True: 0.001}  # of work between two rests, by whether a job is slow
_RESTS = {False: 1.0, True: 4.0}  # seconds of rest for each second of work
_LONGEST_REST_S = 0.2


class PutOff(BaseException):
    """The job at work is to end; it is begun anew later. Not for anybody but the lanes."""


class _Pace:
    """How far the thread at work may go before it rests."""

    def __init__(self) -> None:
        self.began = self.rested = self.looked = time.thread_time()
        self._collections = LongCollections()

    def look(self) -> float:
        """Processor time since it began."""
        now = time.thread_time()
        self._collections.see(now - self.looked)
        self.looked = now
        return now - self.began

    def rest(self, slow: bool, others: Callable[[], float]) -> None:
        """Rest where it has worked for long enough, as long as `others` says (times)."""
        worked = self.looked - self.rested
        if worked > _BURST_S[slow]:
            rests = _RESTS[slow] * others()
            if rests:
                time.sleep(min(worked * rests, _LONGEST_REST_S))
            self.rested = self.looked = time.thread_time()


@dataclass(eq=False, slots=True)
class Job:
    """Something to do.

    Attributes:
        work: does it, and gives what hands its result over. It may be called again when it was
            cut off.
        is_slow: it is, or will be, in the slow lane.
    """

    work: Callable[[], Callable[[], None]]
    is_slow: bool = False
    began: float = 0.0
    thread: threading.Thread | None = field(default=None, repr=False)


class Lanes:
    """The threads; none of them keeps the process from ending.

    Args:
        num_quick, num_slow: how many jobs of each kind run at once.
        is_busy: whether others compute, whom jobs are not to delay; jobs that wait count anyway.
    """

    def __init__(self, num_quick: int, num_slow: int, is_busy: Callable[[], bool]) -> None:
        self._num_quick, self._most_slow, self._is_busy = num_quick, num_slow, is_busy
        self._lock = threading.Lock()
        self._queue: SimpleQueue[Job] = SimpleQueue()
        self._later: deque[Job] = deque()
        self._running: set[Job] = set()
        self._threads: set[threading.Thread] = set()

    def put(self, job: Job) -> None:
        """Have it done."""
        with self._lock:
            self._queue.put(job)
            self._see_stuck()
            self._hire()

    def give_up(self, seconds: float) -> list[Job]:
        """Leave behind the threads whose jobs have run for longer, with these jobs: their results
        will not be handed over."""
        with self._lock:
            self._see_stuck()
            now = time.monotonic()
            late = [job for job in self._running if now - job.began > seconds]
            for job in late:
                self._running.discard(job)
                if job.thread is not None:
                    self._threads.discard(job.thread)
            for _ in range(min(len(self._later), self._most_slow - self._num_slow)):
                self._queue.put(self._later.popleft())  # threads that wait look there
            self._hire()
        return late

    def rest(self, worked: float) -> None:
        """For other threads that have worked for so many seconds: rest as a slow job does."""
        if self._is_busy() or not self._queue.empty():
            time.sleep(min(worked * _RESTS[True], _LONGEST_REST_S))

    # -- the threads --------------------------------------------------------------------------

    @property
    def _num_slow(self) -> int:
        """With the lock held."""
        return sum(job.is_slow for job in self._running)

    def _hire(self) -> None:
        if len(self._threads) - self._num_slow < self._num_quick and not self._queue.empty():
            thread = threading.Thread(target=self._run, name="sgc-constraints", daemon=True)
            self._threads.add(thread)
            thread.start()

    def _see_stuck(self) -> None:
        now = time.monotonic()
        for job in self._running:
            job.is_slow = job.is_slow or now - job.began > _STUCK_S

    def _run(self) -> None:
        me = threading.current_thread()
        while (job := self._next(me)) is not None:
            pace = _Pace()
            try:
                with at_each_look(partial(self._look, job, pace)):
                    hand_over = job.work()
            except PutOff:
                if not self._is_put_off(job):
                    return
                continue
            with self._lock:
                if job not in self._running:
                    return  # given up: another thread has taken this one's place
                self._running.discard(job)
            hand_over()

    def _next(self, me: threading.Thread) -> Job | None:
        while True:
            with self._lock:
                if self._later and self._num_slow < self._most_slow:
                    return self._begin(self._later.popleft(), me)
                if len(self._threads) - self._num_slow > self._num_quick:
                    self._threads.discard(me)
                    return None
            try:
                job = self._queue.get(timeout=_IDLE_S)
            except Empty:
                with self._lock:
                    if not self._queue.empty():
                        continue
                    self._threads.discard(me)
                    return None
            with self._lock:
                return self._begin(job, me)

    def _begin(self, job: Job, me: threading.Thread) -> Job:
        job.began, job.thread = time.monotonic(), me
        self._running.add(job)
        if job.is_slow:
            self._hire()
        return job

    def _is_put_off(self, job: Job) -> bool:
        """Queue it once more; False when it was given up, and another thread has taken the place of
        its own."""
        with self._lock:
            if job not in self._running:
                return False
            self._running.discard(job)
            job.is_slow = True
            self._later.append(job)
            return True

    def _look(self, job: Job, pace: _Pace) -> None:
        if pace.look() > QUICK_S and not job.is_slow:
            with self._lock:
                if self._num_slow >= self._most_slow:
                    raise PutOff
                job.is_slow = True
                self._hire()
        if job not in self._running:
            raise PutOff  # given up
        pace.rest(job.is_slow, self._others)

    def _others(self) -> float:
        """How many times as long as usual a job is to rest: as often as jobs are slow."""
        is_busy = self._is_busy()
        with self._lock:
            if not is_busy and len(self._running) == 1 and self._queue.empty():
                return 0.0
            return float(max(1, self._num_slow))
