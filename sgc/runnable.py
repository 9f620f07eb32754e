"""What programs and compiled programs share: run, run_batch, arun and stream."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

from sgc.batch import run_rows
from sgc.default_backend import default_backend
from sgc.event_stream import EventStream
from sgc.settings import RunSettings, make_settings, sampling_fields
from sgc_ir.errors import InputError
from sgc_runtime.executor.backend import Backend, RunDefaults
from sgc_runtime.executor.backend_source import BackendSource
from sgc_runtime.executor.context import RunContext
from sgc_runtime.executor.event import Event
from sgc_runtime.executor.loop import run_sync, wrap
from sgc_runtime.executor.merges import Merges
from sgc_runtime.executor.node_log import NodeLog
from sgc_runtime.executor.node_stats import NodeTable
from sgc_runtime.executor.policy import Policies
from sgc_runtime.executor.state import FinishedState

if TYPE_CHECKING:
    from sgc.compile import CompiledProgram

Values = Mapping[str, Any]
Execute = Callable[[Values, RunContext, contextvars.Context], Coroutine[Any, Any, FinishedState]]
NodeNames = Callable[[], frozenset[str]]  # variables and tools of a program
RUN_OPTIONS = (
    "backend",
    "mode",
    "seed",
    *(f.name for f in sampling_fields()),
    "deadline",
    "row_deadline",
    "retries",
    "hints",
    "row_parallel",
)
BATCH_OPTIONS = (*RUN_OPTIONS, "parallel", "plan", "merge")
_LOG = logging.getLogger("sgc")


@dataclass(frozen=True)
class Job:
    """A run that is ready to start: how to execute a row, on what, with which settings."""

    name: str
    mode: str
    execute: Execute
    backend: BackendSource
    settings: RunSettings
    defaults: RunDefaults  # one object for all rows: what depends on it is worked out once
    context: contextvars.Context
    policies: Policies | None = None
    merges: Merges | None = None  # where equal calls are made once

    async def row(
        self,
        index: int,
        values: Values,
        on_event: Callable[[Event], None] | None = None,
        log: NodeLog | None = None,
        nodes: NodeTable | None = None,
        make_context: Callable[..., RunContext] = RunContext,
        shared_chars: int = 0,
    ) -> FinishedState:
        """Run one row; to be awaited on the runtime's loop.

        `log` is the row's journal; `nodes` counts what each node costs; `shared_chars` of its first
        prompt are read by later rows too.
        """
        ctx = make_context(
            self.backend,
            self.defaults,
            index,
            self.name,
            on_event,
            log=log,
            policies=self.policies,
            nodes=nodes,
        )
        ctx.shared_chars, ctx.merges = shared_chars, self.merges
        seconds = self.settings.row_deadline
        if seconds is None:
            return await self.execute(values, ctx, self.context)
        timer = asyncio.get_running_loop().call_later(seconds, ctx.expire, seconds)
        try:
            return await self.execute(values, ctx, self.context)
        finally:
            timer.cancel()

    async def only_row(
        self, values: Values, on_event: Callable[[Event], None] | None = None
    ) -> FinishedState:
        """Run the one row of a run."""
        state = await self.row(0, values, on_event)
        self.end()
        return state

    def end(self) -> None:
        """After the last row: warn of deadlines and retries by names that nothing had. Those of a
        compiled program are checked before it runs."""
        unmet = self.policies.unmet() if self.policies and self.mode != "compiled" else ()
        if unmet:
            _LOG.warning("%s: no node or tool that ran has that name", ", ".join(unmet))


class Runnable(ABC):
    """A program that can be run.

    Options of `run`, `arun` and `stream`: `backend`, `mode` ("auto" | "compiled" |
    "interpreted"), `seed`, `deadline`, `row_deadline`, `retries`, `hints`, `row_parallel`, and the
    sampling values of `sgc.settings.RunSettings`. A keyword that is an argument of the program is
    the argument; such an option goes into `options={...}`.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the program."""

    @property
    @abstractmethod
    def parameter_names(self) -> tuple[str, ...]:
        """Names of all arguments, bound ones included."""

    @abstractmethod
    def arguments(self, args: tuple[Any, ...], kwargs: Values) -> dict[str, Any]:
        """All arguments by name. Raises InputError for what does not fit."""

    @abstractmethod
    def _executor(self, mode: str) -> tuple[str, Execute, NodeNames | None]:
        """The mode that is taken ("compiled" or "interpreted"), how to execute a row, and the
        names of its nodes and tools, None where only the run tells."""

    @abstractmethod
    def irreversible_tools(self) -> frozenset[str]:
        """Names of the irreversible tools that it may call, as far as they are known before."""

    def run(self, *args: Any, **kwargs: Any) -> FinishedState:
        """Run once and wait. Raises the error of the node that failed, InputError for arguments
        or options that do not fit, CompileError for a refused program in mode "compiled"."""
        job, values = self._prepare(args, kwargs)
        return _raised(run_sync(job.only_row(values)))

    async def arun(self, *args: Any, **kwargs: Any) -> FinishedState:
        """`run`, to be awaited on any event loop; cancelling it stops the run."""
        job, values = self._prepare(args, kwargs)
        return _raised(await wrap(job.only_row(values)))

    def stream(self, *args: Any, **kwargs: Any) -> EventStream:
        """Run once; gives an `Event` for each piece of text as it comes.

        Iterating raises the error of the node that failed; afterwards `.state` is the result.
        """
        job, values = self._prepare(args, kwargs)
        return EventStream(lambda on_event: job.only_row(values, on_event))

    @overload
    def run_batch(
        self, rows: Iterable[Any], *, iterate: Literal[False] = False, **options: Any
    ) -> list[FinishedState]: ...
    @overload
    def run_batch(
        self, rows: Iterable[Any], *, iterate: Literal[True], **options: Any
    ) -> Iterator[FinishedState]: ...
    def run_batch(
        self,
        rows: Iterable[Any],
        *,
        backend: Backend | BackendSource | None = None,
        mode: str | None = None,
        seed: int | None = None,
        parallel: int | None = None,
        progress: bool = False,
        iterate: bool = False,
        options: Values | None = None,
        **sampling: Any,
    ) -> list[FinishedState] | Iterator[FinishedState]:
        """Run many rows, `parallel` at a time; gives their states in the order of `rows`.

        A row is a dict of arguments or a tuple of positional ones. A row that fails does not stop
        the others: its state has `error()`. An exception in place of a row fails that row.

        Args:
            sampling: the other options of `run`: deadlines, retries and sampling values; with
                `plan=False` rows start in their own order; with `merge=True` equal calls of all
                rows are made once (selects, greedy gens, those with a seed of their own, pure
                tools).
            progress: show a bar on standard error.
            iterate: give an iterator that takes rows only as they are needed.

        Raises InputError for options that do not fit.
        """
        given = {"backend": backend, "mode": mode, "seed": seed, "parallel": parallel}
        merged = _merge({k: v for k, v in {**given, **sampling}.items() if v is not None}, options)
        job = self.job(merged)
        if job.mode == "compiled" and not iterate and isinstance(rows, list | tuple):
            from sgc.planned_batch import run_planned

            return run_planned(self, self._for_batch(rows), job, rows, progress)
        parallel = job.settings.parallel
        start = self._starter(job)
        states = _to_the_end(run_rows(rows, start, parallel, progress, iterate), job)
        return states if iterate else list(states)

    def _starter(self, job: Job) -> Callable[..., Coroutine[Any, Any, FinishedState]]:
        """A coroutine function of a row's index, the row, and what `Job.row` takes besides."""

        async def start(index: int, row: Any, shared_chars: int = 0) -> FinishedState:
            if isinstance(row, Exception):
                return FinishedState.failed(row, job.mode)
            try:
                values = self._row_values(row)
            except InputError as error:
                return FinishedState.failed(error, job.mode)
            return await job.row(index, values, shared_chars=shared_chars)

        return start

    def _for_batch(self, rows: Sequence[Any]) -> CompiledProgram:
        """The compiled program for these rows, with the values that they have in common in it."""
        raise NotImplementedError

    def _row_values(self, row: Any) -> dict[str, Any]:
        if isinstance(row, Mapping):
            return self.arguments((), row)
        if isinstance(row, tuple):
            return self.arguments(row, {})
        raise InputError(
            f"{self.name}: a row is a {type(row).__name__}; give a dict of arguments, or a tuple"
        )

    def _prepare(self, args: tuple[Any, ...], kwargs: Values) -> tuple[Job, dict[str, Any]]:
        own, options = self._split(kwargs)
        values = self.arguments(args, own)
        return self.job(options, RUN_OPTIONS), values

    def _split(self, kwargs: Values) -> tuple[dict[str, Any], dict[str, Any]]:
        """Arguments of the program, and options of the run."""
        own: dict[str, Any] = {}
        options: dict[str, Any] = {}
        for name, value in kwargs.items():
            is_option = name in BATCH_OPTIONS and name not in self.parameter_names
            (options if is_option else own)[name] = value
        if "options" in self.parameter_names:
            return own, options
        return own, _merge(options, own.pop("options", None))

    def job(self, options: Values, known: tuple[str, ...] = BATCH_OPTIONS) -> Job:
        """Options and settings of a run, checked, with the mode that it takes.

        Raises InputError for options that do not fit or are not in `known`, CompileError for a
        refused program in mode "compiled".
        """
        for name in options:
            if name not in known and name in BATCH_OPTIONS:
                raise InputError(f"{name} is an option of run_batch, not of one run")
            if name not in known:
                raise InputError(f"unknown option {name}; the options are {', '.join(known)}")
        given = dict(options)
        backend = given.pop("backend", None)
        settings = make_settings(given)
        mode, execute, names = self._executor(settings.mode)
        policies = settings.policies()
        if policies is not None:
            policies.check_effects(self.irreversible_tools())
            if names is not None:
                policies.check(names())
        if backend is None:
            source = default_backend()
        else:
            source = backend if isinstance(backend, BackendSource) else BackendSource.of(backend)
        merges = None
        if settings.merge:
            from sgc_runtime.backends.merging import merging_source

            merges = Merges()
            source = merging_source(source, merges)
        defaults = RunDefaults(
            settings.params, settings.seed, settings.hints, settings.row_parallel
        )
        context = contextvars.copy_context()
        return Job(self.name, mode, execute, source, settings, defaults, context, policies, merges)


def _merge(options: dict[str, Any], more: Values | None) -> dict[str, Any]:
    if more is not None and not isinstance(more, Mapping):
        raise InputError(f"options={more!r}; give a dict of options")
    for name in more or ():
        if name in options:
            raise InputError(f"option {name} is given twice; drop one")
    return {**options, **(more or {})}


def _to_the_end(states: Iterator[FinishedState], job: Job) -> Iterator[FinishedState]:
    yield from states
    job.end()


def _raised(state: FinishedState) -> FinishedState:
    error = state.error()
    if error is not None:
        raise error
    return state
