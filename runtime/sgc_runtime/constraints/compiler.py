"""Compiles constraints in threads of its own, once for all requests that ask for an equal one."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from queue import Empty, SimpleQueue

from sgc_ir.automata.compile import constraint_automaton, constraint_key
from sgc_ir.automata.limits import DEFAULT_LIMITS, Limits
from sgc_ir.errors import BackendError, ConstraintError, SgcError
from sgc_ir.params import SamplingParams
from sgc_runtime.constraints.canonical import Canonical
from sgc_runtime.constraints.jump import Planner
from sgc_runtime.constraints.matcher import Matcher
from sgc_runtime.constraints.token_masks import TokenMasks
from sgc_runtime.constraints.vocabulary import Vocabulary
from sgc_runtime.sampling.healing import TokenPrefixes

MAX_ENTRIES = 256
MAX_BYTES = 256 << 20  # of tables of transitions; masks have a bound of their own
_IDLE_S = 10.0  # after which a thread without work ends
_LOOK_S = 0.5  # between looks at what compiles


@dataclass(frozen=True, slots=True)
class Tools:
    """What all constraints over one tokenizer share."""

    vocabulary: Vocabulary
    canonical: Canonical
    prefixes: TokenPrefixes


@dataclass(eq=False, slots=True)
class _Job:
    key: bytes
    params: SamplingParams
    future: Future[Planner]
    began: float | None = None  # by the monotonic clock


class ConstraintCompiler:
    """Planners by what they constrain to; bounded, least recently asked for dropped first.

    Compiling is bounded in processor time (`limits`). One that takes longer than `patience_s`
    seconds all the same is given up: its thread is left behind, and another one takes its place.
    No thread keeps the process from ending.

    Args:
        make_tools: called once, in a thread that compiles.
        limits: bounds of each automaton.
        num_threads: how many compile at once.
        patience_s: see above.
        entries: constraints that are kept.
    """

    def __init__(
        self,
        make_tools: Callable[[], Tools],
        limits: Limits = DEFAULT_LIMITS,
        num_threads: int = 2,
        patience_s: float = 30.0,
        entries: int = MAX_ENTRIES,
    ) -> None:
        self._make_tools, self._limits = make_tools, limits
        self._num_threads, self._patience_s, self._entries = num_threads, patience_s, entries
        self._lock = threading.Lock()
        self._tools_lock = threading.Lock()
        self._tools: Tools | None = None
        self._known: OrderedDict[bytes, Future[Planner]] = OrderedDict()
        self._queue: SimpleQueue[_Job] = SimpleQueue()
        self._running: dict[_Job, threading.Thread] = {}
        self._threads: set[threading.Thread] = set()
        self.num_compiled = 0

    @property
    def tools(self) -> Tools:
        """What the constraints share; takes a moment the first time."""
        with self._tools_lock:
            if self._tools is None:
                self._tools = self._make_tools()
                _freeze()
            return self._tools

    def submit(self, params: SamplingParams) -> Future[Planner]:
        """The planner of the constraint of `params`, when it is there.

        Raises:
            ConstraintError: the constraint has no form at all (see `constraint_key`).
        """
        key = constraint_key(params)
        with self._lock:
            future = self._known.get(key)
            if future is None:
                future = self._known[key] = Future()
                future.set_running_or_notify_cancel()  # nobody cancels it for the others
                self._queue.put(_Job(key, params, future))
                self._hire()
            self._known.move_to_end(key)
            return future

    async def get(self, params: SamplingParams) -> Planner:
        """The same, awaited on the running event loop.

        Raises:
            ConstraintError: the constraint cannot be used, or takes too long to compile.
            BackendError: an error that nobody expected.
        """
        future = self.submit(params)
        if not future.done():
            await self._wait(future)
        return future.result()

    async def _wait(self, future: Future[Planner]) -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def wake(_: Future[Planner]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits
                loop.call_soon_threadsafe(ended.set)

        future.add_done_callback(wake)
        while not future.done():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), _LOOK_S)
            self._give_up()

    def forget(self, params: SamplingParams) -> None:
        """Have the constraint compiled anew the next time: this one has grown to its limits."""
        with self._lock:
            self._known.pop(constraint_key(params), None)

    def save(self) -> None:
        """Write masks that are new to their files."""
        with self._lock:
            done = [f for f in self._known.values() if f.done() and f.exception() is None]
        for future in done:
            future.result().masks.save()

    # -- the threads --------------------------------------------------------------------------

    def _hire(self) -> None:
        if len(self._threads) < self._num_threads:
            thread = threading.Thread(target=self._work, name="sgc-constraints", daemon=True)
            self._threads.add(thread)
            thread.start()

    def _work(self) -> None:
        me = threading.current_thread()
        while (job := self._next(me)) is not None:
            try:
                result: Planner | SgcError = self._compile(job.params)
            except SgcError as error:
                result = error
            except Exception as error:
                result = _unexpected(error)
            if not self._finish(job, result):
                return  # given up: another thread has taken this one's place

    def _next(self, me: threading.Thread) -> _Job | None:
        while True:
            try:
                job = self._queue.get(timeout=_IDLE_S)
            except Empty:
                with self._lock:
                    if not self._queue.empty():
                        continue
                    self._threads.discard(me)
                    return None
            with self._lock:
                job.began = time.monotonic()
                self._running[job] = me
            return job

    def _compile(self, params: SamplingParams) -> Planner:
        automaton = constraint_automaton(params, self._limits)
        tools = self.tools
        planner = Planner(TokenMasks(automaton, tools.vocabulary), tools.canonical, tools.prefixes)
        matcher = Matcher(planner)
        with automaton.one_step():
            jump = matcher.jump()
            if jump is not None:
                matcher.apply(jump)
            if not matcher.is_final:
                matcher.mask()
        return planner

    def _finish(self, job: _Job, result: Planner | SgcError) -> bool:
        """Hand over what a job gave; False when it has been given up."""
        with self._lock:
            if self._running.pop(job, None) is None:
                return False
            self.num_compiled += 1
            if isinstance(result, SgcError) and not _is_lasting(result):
                self._drop(job)
        if isinstance(result, SgcError):
            job.future.set_exception(result)
        else:
            job.future.set_result(result)
            self._bound()
        return True

    def _drop(self, job: _Job) -> None:
        """Have the constraint compiled anew by whoever asks next; with the lock held."""
        if self._known.get(job.key) is job.future:
            del self._known[job.key]

    def _bound(self) -> None:
        with self._lock:
            sizes = {key: _size(future) for key, future in self._known.items()}
            total = sum(sizes.values())
            for key, future in list(self._known.items())[:-1]:
                if total <= MAX_BYTES and len(self._known) <= self._entries:
                    return
                if future.done():  # whoever waits for it or uses it has it
                    total -= sizes[key]
                    del self._known[key]

    def _give_up(self) -> None:
        """Fail what has compiled for too long."""
        now = time.monotonic()
        with self._lock:
            late = [j for j in self._running if now - (j.began or now) > self._patience_s]
            for job in late:
                self._threads.discard(self._running.pop(job))
                self._drop(job)
                self._hire()
        for job in late:
            message = f"the constraint takes longer than {self._patience_s:g} s to compile"
            job.future.set_exception(ConstraintError(f"{message}; make it smaller"))


@cache
def _freeze() -> None:
    """Once a process: a collection would hold every thread for 0.1 s to look through what is
    loaded. What is garbage in cycles now would never be freed again, so it is collected before.
    """
    gc.collect()
    gc.freeze()


def _is_lasting(error: SgcError) -> bool:
    """Whether the next try would fail alike: time may have run out in a moment of much work."""
    return isinstance(error, ConstraintError) and error.kind != "limit"


def _size(future: Future[Planner]) -> int:
    if not future.done() or future.exception() is not None:
        return 0
    return future.result().masks.automaton.num_bytes


def _unexpected(error: Exception) -> BackendError:
    """What is said of an error that nobody expected; the constraint may be a good one."""
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    found = BackendError(f"compiling the constraint failed: {reason}")
    found.__cause__ = error
    return found
