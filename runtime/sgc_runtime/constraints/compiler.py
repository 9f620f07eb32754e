"""Compiles constraints in threads of their own (`lanes`), once for all requests that ask for an
equal one."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from copy import copy
from dataclasses import dataclass
from functools import partial

from sgc_ir.automata.compile import constraint_automaton, constraint_key
from sgc_ir.automata.limits import DEFAULT_LIMITS, Limits, OutOfTime, at_each_look
from sgc_ir.errors import BackendError, ConstraintError, SgcError
from sgc_ir.params import SamplingParams
from sgc_runtime.constraints.canonical import Canonical
from sgc_runtime.constraints.garbage import freeze_what_is_loaded
from sgc_runtime.constraints.jump import Planner
from sgc_runtime.constraints.lanes import Job, Lanes
from sgc_runtime.constraints.matcher import Matcher
from sgc_runtime.constraints.token_masks import TokenMasks
from sgc_runtime.constraints.vocabulary import Vocabulary
from sgc_runtime.sampling.healing import TokenPrefixes

MAX_ENTRIES = 256
MAX_BYTES = 256 << 20  # of tables of transitions; masks have a bound of their own
_LOOK_S = 0.5  # between looks at what compiles
_REFUSED_S = 60.0  # for which a constraint is refused that took too much time


@dataclass(frozen=True, slots=True)
class Tools:
    """What all constraints over one tokenizer share."""

    vocabulary: Vocabulary
    canonical: Canonical
    prefixes: TokenPrefixes


class _Known:
    """The outcome of one constraint, perhaps still to come.

    Attributes:
        until: when it is forgotten, by the monotonic clock; None: not by time.
    """

    __slots__ = ("future", "until")

    def __init__(self) -> None:
        self.future: Future[Planner] = Future()
        self.future.set_running_or_notify_cancel()  # nobody cancels it for the others
        self.until: float | None = None

    @property
    def is_over(self) -> bool:
        return self.until is not None and time.monotonic() > self.until

    def fail(self, error: SgcError) -> None:
        self.future.set_exception(error)

    @property
    def num_bytes(self) -> int:
        future = self.future
        if not future.done() or future.exception() is not None:
            return 0
        return future.result().masks.num_bytes


class ConstraintCompiler:
    """Planners by what they constrain to; bounded, least recently asked for dropped first.

    Compiling is bounded in processor time (`limits`). One that takes longer than `patience_s`
    seconds all the same is given up: its thread is left behind, and another one takes its place.
    What is refused is so without another try; for a minute, where it took too much time.

    Args:
        make_tools: called once, in a thread that compiles.
        limits: bounds of each automaton.
        num_threads: how many compile at once, of those that take short and of those that do not.
        patience_s: see above.
        entries: constraints that are kept.
        is_busy: whether steps are being computed, which compiling is not to delay.
    """

    def __init__(
        self,
        make_tools: Callable[[], Tools],
        limits: Limits = DEFAULT_LIMITS,
        num_threads: int = 2,
        patience_s: float = 30.0,
        entries: int = MAX_ENTRIES,
        is_busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._make_tools, self._limits = make_tools, limits
        self._patience_s, self._entries = patience_s, entries
        self._lanes = Lanes(num_threads, num_threads, is_busy)
        self._lock = threading.Lock()
        self._tools_lock = threading.Lock()
        self._tools: Tools | None = None
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._compiling: dict[Job, _Known] = {}
        self.num_compiled = 0

    @property
    def tools(self) -> Tools:
        """What the constraints share; takes a moment the first time."""
        with self._tools_lock, at_each_look(None):  # not cut off: all others wait for it too
            if self._tools is None:
                self._tools = self._make_tools()
                freeze_what_is_loaded()
            return self._tools

    def submit(self, params: SamplingParams) -> Future[Planner]:
        """The planner of the constraint of `params`, when it is there.

        Raises:
            ConstraintError: the constraint has no form at all (see `constraint_key`).
        """
        key = constraint_key(params)
        with self._lock:
            known = self._known.get(key)
            if known is None or known.is_over:
                known = self._known[key] = _Known()
                job = Job(partial(self._work, params, known))
                self._compiling[job] = known
                self._lanes.put(job)
            self._known.move_to_end(key)
            return known.future

    async def get(self, params: SamplingParams) -> Planner:
        """The same, awaited on the running event loop.

        Raises:
            ConstraintError: the constraint cannot be used, or takes too long to compile.
            BackendError: an error that nobody expected.
        """
        future = self.submit(params)
        if not future.done():
            await self._wait(future)
        error = future.exception()
        if error is None:
            return future.result()
        raised = copy(error)  # one that is kept would keep the frames it goes through
        raised.__cause__ = error.__cause__
        raise raised

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
            futures = [known.future for known in self._known.values()]
        for future in futures:
            if future.done() and future.exception() is None:
                future.result().masks.save()

    def rest(self, worked: float) -> None:
        """For threads that have worked on constraints for so many seconds: let others go on."""
        self._lanes.rest(worked)

    # -- in the threads -----------------------------------------------------------------------

    def _work(self, params: SamplingParams, known: _Known) -> Callable[[], None]:
        try:
            result: Planner | SgcError = self._compile(params, self.tools)
        except SgcError as error:
            result = _without_traceback(error)
        except Exception as error:
            result = _unexpected(error)
        return partial(self._finish, known, result)

    def _compile(self, params: SamplingParams, tools: Tools) -> Planner:
        automaton = constraint_automaton(params, self._limits)
        planner = Planner(TokenMasks(automaton, tools.vocabulary), tools.canonical, tools.prefixes)
        matcher = Matcher(planner)
        with automaton.one_step():
            jump = matcher.jump()
            if jump is not None:
                matcher.apply(jump)
            if not matcher.is_final:
                matcher.mask()
        return planner

    def _finish(self, known: _Known, result: Planner | SgcError) -> None:
        with self._lock:
            self._compiling = {j: k for j, k in self._compiling.items() if k is not known}
            self.num_compiled += 1
            known.until = _forgotten(result)
        if isinstance(result, SgcError):
            known.fail(result)
        else:
            known.future.set_result(result)
            self._bound()

    def _bound(self) -> None:
        with self._lock:
            sizes = {key: known.num_bytes for key, known in self._known.items()}
            total = sum(sizes.values())
            for key, known in list(self._known.items())[:-1]:
                if total <= MAX_BYTES and len(self._known) <= self._entries:
                    return
                if known.future.done():  # whoever waits for it or uses it has it
                    total -= sizes[key]
                    del self._known[key]

    def _give_up(self) -> None:
        """Fail what has compiled for too long."""
        late = self._lanes.give_up(self._patience_s)
        if not late:
            return
        message = f"the constraint takes longer than {self._patience_s:g} s to compile"
        error = OutOfTime(f"{message}; make it smaller")
        with self._lock:
            found = [known for job in late if (known := self._compiling.pop(job, None))]
            for known in found:
                known.until = _forgotten(error)
        for known in found:
            known.fail(error)


def _forgotten(result: Planner | SgcError) -> float | None:
    """When another try may have another outcome, by the monotonic clock."""
    if isinstance(result, OutOfTime):  # perhaps only in a moment of much work
        return time.monotonic() + _REFUSED_S
    is_lasting = not isinstance(result, SgcError) or isinstance(result, ConstraintError)
    return None if is_lasting else time.monotonic()


def _without_traceback(error: SgcError) -> SgcError:
    """The error itself, which is kept, without the frames that it went through: they hold all
    that was made."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


def _unexpected(error: Exception) -> BackendError:
    """What is said of an error that nobody expected; the constraint may be a good one."""
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    found = BackendError(f"compiling the constraint failed: {reason}")
    found.__cause__ = error
    return found
