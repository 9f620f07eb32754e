"""`sgc run --trace`: what each row of a run did and when, in a file for Chrome or Perfetto."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from sgc.cli.trace_file import PROCESSES_A_RUN, TraceFile
from sgc.runnable import Job
from sgc_runtime.executor.node_log import NodeLog
from sgc_runtime.executor.node_stats import NodeTable
from sgc_runtime.executor.state import FinishedState
from sgc_runtime.executor.timeline import RowTimeline
from sgc_runtime.executor.timeline_context import TimelineContext


class RunTrace:
    """The trace of one run.

    Args:
        resumed: append to the trace of the runs before, if it is there.

    Raises CommandError when `path` cannot be written.
    """

    def __init__(self, path: Path, resumed: bool = False) -> None:
        self._file = TraceFile(path, append=resumed)
        self._rows: dict[int, RowTimeline] = {}

    def begin(self, facts: Mapping[str, Any]) -> None:
        """The run begins; `facts` say what it is."""
        process = self._file.first_process + PROCESSES_A_RUN - 1  # behind those of all rows
        place = {"pid": process, "tid": 0}
        now = self._file.microseconds(time.perf_counter())
        order = {"name": "process_sort_index", "ph": "M", **place, "args": {"sort_index": -1}}
        name = {"name": "process_name", "ph": "M", **place, "args": {"name": "run"}}
        mark = {"name": "sgc run", "ph": "i", "s": "p", "ts": now, **place, "args": dict(facts)}
        self._file.write([name, order, mark])
        self._file.check()

    async def row(
        self,
        job: Job,
        index: int,
        values: Mapping[str, Any],
        log: NodeLog | None,
        nodes: NodeTable | None,
        shared_chars: int = 0,
    ) -> FinishedState:
        """Run one row of `job`; to be awaited on the runtime's loop."""
        process = self._file.first_process + index + 1
        timeline = self._rows[index] = RowTimeline(self._file, process, index, job.name)
        make_context = partial(TimelineContext, timeline)
        state, error = None, None
        try:
            state = await job.row(
                index,
                values,
                log=log,
                nodes=nodes,
                make_context=make_context,
                shared_chars=shared_chars,
            )
            error = state.error()
            return state
        except BaseException as failure:
            error = failure
            raise
        finally:
            timeline.close(None if state is None else state.usage, error)
            del self._rows[index]

    def check(self) -> None:
        """Flush. Raises CommandError for what has ended the writing, if anything did."""
        self._file.check()

    def close(self, wait_s: float = -1) -> None:
        """Write what still runs, and end the file; once."""
        for timeline in list(self._rows.values()):
            timeline.unfinished()
        self._file.close(wait_s)
