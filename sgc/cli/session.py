"""One run of `sgc run`, from the checks before it to its numbers after it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sgc.cli.backend import choose_backend, close_made, fetch, load
from sgc.cli.batch import RowBatch
from sgc.cli.breaks import node_counts, say_breaks
from sgc.cli.failure import FAILED, OK, CommandError, say
from sgc.cli.fingerprint import fingerprint
from sgc.cli.inputs import Inputs, Row
from sgc.cli.interrupt import InterruptGuard
from sgc.cli.model_progress import loading
from sgc.cli.notes import notes_on_stderr
from sgc.cli.output import (
    RowOutput,
    encode_line,
    open_output,
    writing,
)
from sgc.cli.planned import check_reordering, count_and_common, in_plan_order
from sgc.cli.profile import profile_path, report
from sgc.cli.programs import load_module
from sgc.cli.progress import Display, FailureNotes, make_display
from sgc.cli.recording import merging, recording, replaying
from sgc.cli.records import failed_record, record_of, unavailable
from sgc.cli.request import Request, check_paths
from sgc.cli.resuming import (
    discard_journal,
    journal_path,
    open_journal,
    open_rows,
)
from sgc.cli.row_times import RowTimes
from sgc.cli.runnables import as_written, load_runnable, needs_model, params_of, settle_mode
from sgc.cli.tally import Tally
from sgc.cli.token_ids import check_token_ids
from sgc.cli.values import cell_converter, parse_arguments
from sgc.compile import CompiledProgram
from sgc.files import write_atomically
from sgc.runnable import Job, Runnable
from sgc_ir.errors import InputError, SgcError
from sgc_ir.graph import MISSING
from sgc_ir.params import Usage
from sgc_runtime.executor.backend import Backend
from sgc_runtime.executor.merges import Merges
from sgc_runtime.executor.state import FinishedState

if TYPE_CHECKING:  # brings in sqlite, which a run without a journal does not need
    from sgc.cli.timeline import RunTrace  # only of a traced run
    from sgc_runtime.journal.journal import Journal

RESCUE_WAIT_S = 0.5  # for a thread that writes when the run is interrupted


def run_session(request: Request) -> int:
    """Run the rows; gives the exit code. Raises what keeps the run from starting or going on."""
    with notes_on_stderr(request.quiet), InterruptGuard() as guard:
        request.journal.check(request.output)
        if request.tools is not None:
            load_module(request.tools)
        program = load_runnable(request.program)
        if request.no_reorder:
            program = as_written(program)
        rows, total, common = _rows(request, program)
        check_paths(request)
        merges = Merges() if request.settings.get("merge") else None
        backend = _backend(request, merges)
        program, mode = settle_mode(program, request.settings.get("mode", "auto"))
        settings = {**request.settings, "mode": mode, "backend": backend, "merge": None}
        job = replace(program.job(settings), merges=merges)  # the backend merges already
        check_reordering(request.reorder_rows, request.settings.get("plan", True), job.mode)
        if needs_model(program):
            fetch(backend, request.quiet)
        journal = _open_journal(request, program, job, backend)
        trace = None
        try:
            trace = _open_trace(request, program, job.mode)
            left = total if journal is None else _left(total, journal, request.quiet)
            has_calls = needs_model(program) and left != 0
            load_seconds = _load(backend, request.quiet) if has_calls else 0.0
            vocab_size = getattr(backend, "vocab_size", None)
            check_token_ids(program, job.settings, vocab_size)
            if isinstance(program, CompiledProgram):  # paths, and so seeds and the journal, stay
                program = program.for_rows(common)
                job = replace(job, execute=program.execute)
            session = _Session(request, program, job, backend, load_seconds, journal, trace)
            return session.run(rows, left, guard)
        finally:
            if trace is not None:
                trace.close()
            if journal is not None:
                journal.close()
            if request.close:
                close_made(backend)


def _backend(request: Request, merges: Merges | None) -> Backend:
    if request.replay is not None:
        if request.record is not None:
            raise CommandError(
                "--record together with --replay", "drop one: a replay makes no new calls"
            )
        if request.profile:
            raise CommandError("--profile together with --replay", "drop one: no step is computed")
        return merging(replaying(request.replay, request.backend, request.engine), merges)
    hints = request.settings.get("hints", True)
    backend = choose_backend(request.backend, request.engine, request.profile, hints)
    backend = merging(backend, merges)  # below the record, which holds the call of each row
    if request.record is None:
        return backend
    return recording(backend, request.record, append=request.journal.resume)


def _open_journal(
    request: Request, program: Runnable, job: Job, backend: Backend
) -> Journal | None:
    path = journal_path(request.output)
    if path is None:
        return None
    if not request.journal.keep:
        discard_journal(path)
        return None
    facts = fingerprint(
        program,
        job,
        backend if needs_model(program) else None,
        request.inputs,
        request.arguments,
        request.tools,
        request.full_text,
    )
    return open_journal(path, request.journal, facts)


def _open_trace(request: Request, program: Runnable, mode: str) -> RunTrace | None:
    if request.trace is None:
        return None
    from sgc.cli.timeline import RunTrace

    trace = RunTrace(request.trace, resumed=request.journal.resume)
    trace.begin({"program": program.name, "mode": mode, "model": request.engine.get("model")})
    return trace


def _left(total: int | None, journal: Journal, quiet: bool) -> int | None:
    """Rows that have to run, None where their number is not known."""
    finished = journal.finished_rows()
    if journal.resumed and not quiet:
        of = "" if total is None else f" of {total}"
        say(f"sgc: resuming; {finished}{of} rows had finished")
    return None if total is None else total - finished


def _rows(request: Request, program: Runnable) -> tuple[Iterator[Row], int | None, dict[str, Any]]:
    """The rows, their number if known, and arguments that are the same in all of them."""
    params = params_of(program)
    if request.inputs is None:
        if not request.arguments and any(p.default is MISSING for p in params):
            raise CommandError("there are no arguments", "give --inputs ROWS or --arg NAME=VALUE")
        values = parse_arguments(request.arguments, params)
        program.arguments((), values)  # one row that cannot run is wrong usage
        return iter([Row(0, "--arg", values)]), 1, {}
    if request.arguments:
        raise CommandError("--arg together with --inputs", "put the values into the rows")
    inputs = Inputs(request.inputs, cell_converter(params))
    return inputs.rows(), *count_and_common(inputs, program)


def _load(backend: Backend, quiet: bool) -> float:
    started = time.monotonic()
    with loading(quiet):
        load(backend)
    return time.monotonic() - started


class _Session:
    """The rows of one run, what they print and what they cost."""

    def __init__(
        self,
        request: Request,
        program: Runnable,
        job: Job,
        backend: Backend,
        load_seconds: float,
        journal: Journal | None,
        trace: RunTrace | None,
    ) -> None:
        self._request = request
        self._program = program
        self._job = job
        self._backend = backend
        self._journal = journal
        self._trace = trace
        self._before = 0 if journal is None else journal.finished_rows()
        self._tally = Tally(load_seconds=load_seconds, merges=job.merges)
        self._profile_due = threading.Lock()

    def run(self, rows: Iterator[Row], total: int | None, guard: InterruptGuard) -> int:
        try:
            return self._run(rows, total, guard)
        except Exception:
            self._rescue_profile()
            raise

    def _run(self, rows: Iterator[Row], total: int | None, guard: InterruptGuard) -> int:
        output = self._open_output()
        display = make_display(total, self._request.quiet, self._request.output is None)
        guard.rescue = lambda: self._rescue(output, display)
        try:
            self._run_rows(rows, total, output, display, guard)
        except Exception:
            display.close(self._tally, table=False)
            raise
        finally:
            output.close()
        output.finish(all_good=not self._tally.failed)
        self._tally.stop(self._backend.stats())
        display.close(self._tally, table=True)
        if self._journal is None or not self._journal.resumed:  # else other nodes ran before
            self._job.end()
        self._write_stats()
        say_breaks(self._request.explain_breaks, self._program, self._job)
        self._report_profile()
        return FAILED if self._tally.failed else OK

    def _report_profile(self, only_found: bool = False) -> None:
        """Once, whoever comes first; with `only_found` nothing is said about one that lacks."""
        if self._request.profile and self._profile_due.acquire(blocking=False):
            path = profile_path(self._request.output, wanted=True)
            report(self._backend.stats(), path, self._request.quiet, only_found)

    def _rescue_profile(self) -> None:
        """The same for a run that did not get to its end. An engine that is gone, or that does
        not answer, holds nobody up."""

        def rescue() -> None:
            with suppress(CommandError):
                self._report_profile(only_found=True)

        thread = threading.Thread(target=rescue, name="sgc-profile", daemon=True)
        thread.start()
        thread.join(RESCUE_WAIT_S)

    def _open_output(self) -> RowOutput:
        path = self._request.output
        if self._journal is None or path is None:
            return open_output(path)
        from sgc.cli.journaled import JournaledOutput

        return JournaledOutput(path, self._journal)

    def _rescue(self, output: RowOutput, display: Display) -> str:
        output.close(RESCUE_WAIT_S)
        if self._trace is not None:
            with suppress(CommandError):
                self._trace.close(RESCUE_WAIT_S)
        display.close(self._tally, table=False)
        self._rescue_profile()
        rows = self._before + self._tally.rows
        kept = f"{rows} rows had finished and are in {self._request.output or 'stdout'}"
        return kept if self._journal is None else f"{kept}; go on with --resume"

    def _run_rows(
        self,
        rows: Iterator[Row],
        total: int | None,
        output: RowOutput,
        display: Display,
        guard: InterruptGuard,
    ) -> None:
        notes = FailureNotes(display)

        def finished(row: Row, outcome: Any) -> None:
            record, usage = self._record(row, outcome)
            error = record["error"]
            calls, peak = self._tally.nodes.calls, self._tally.backend.get("peak_kv_tokens")
            seconds = self._times.finished(row.index, usage, calls, peak)
            self._tally.add(usage, error is not None, seconds)
            output.put(row.index, encode_line(record), error is not None)
            if error is not None:
                notes.add(row.place, error["message"])
            display.update(self._tally)

        def tick() -> None:
            output.check()
            if self._trace is not None:
                self._trace.check()
            self._tally.observe(self._backend.stats())
            display.update(self._tally)

        resumed = self._journal is not None and self._journal.resumed
        with RowTimes(self._request.times, resumed) as self._times:
            batch = RowBatch(self._start, finished, tick, self._job.settings.parallel)
            guard.ask = batch.interrupt
            batch.run(self._in_order(rows, total))

    def _in_order(self, rows: Iterable[Row], total: int | None) -> Iterable[Row]:
        if self._journal is not None:
            rows = open_rows(rows, self._journal)
        if not isinstance(self._program, CompiledProgram):
            return rows
        return in_plan_order(rows, self._program, self._job, total, self._request.reorder_rows)

    async def _start(self, row: Row) -> FinishedState:
        with self._times.running(row.index):
            return await self._run_row(row)

    async def _run_row(self, row: Row) -> FinishedState:
        log = None
        if self._journal is not None:
            log = self._journal.begin_row(row.index, self._program.name)
        if row.arguments is None:
            raise InputError(f"{row.place}: {row.problem}")
        try:
            values = self._program.arguments((), row.arguments)
        except InputError as error:
            raise InputError(f"{row.place}: {error}") from error
        nodes, shared = self._tally.nodes, row.shared_chars
        if self._trace is not None:
            return await self._trace.row(self._job, row.index, values, log, nodes, shared)
        return await self._job.row(row.index, values, log=log, nodes=nodes, shared_chars=shared)

    def _record(self, row: Row, outcome: FinishedState | Exception) -> tuple[dict[str, Any], Usage]:
        full_text = self._request.full_text
        if isinstance(outcome, SgcError):
            return failed_record(row.index, row.place, outcome, full_text), Usage()
        if isinstance(outcome, BaseException):
            raise outcome  # nothing that a row can cause: a defect
        missing = unavailable(outcome.error())
        if missing is not None:
            raise missing
        return record_of(row.index, row.place, outcome, full_text), outcome.usage

    def _write_stats(self) -> None:
        if self._request.stats is not None:
            nodes = node_counts(self._program, self._job, self._tally.nodes.started)
            text = json.dumps(self._tally.stats(self._backend.stats()) | nodes, indent=2) + "\n"
            with writing(self._request.stats):
                write_atomically(self._request.stats, text.encode())
