"""Puts the rows of a run into the order of a plan, window by window, as they are taken.

While the rows of one window are given out, those of the next one, up to twice as many, are read and
looked at, so that nobody waits for a plan but at the begin; no more than two windows are held.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sgc_ir.analysis.plan import NOTHING_KNOWN, RowFacts, plan_rows
from sgc_ir.ops import Op
from sgc_runtime.executor.backend_source import BackendSource
from sgc_runtime.executor.chatml import ChatML

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sgc.runnable import Job
    from sgc_ir.graph import Program as Graphs
    from sgc_ir.params import SamplingParams
    from sgc_runtime.executor.backend import Backend, ChatTemplate

T = TypeVar("T")
FIRST_CALLS = 4096  # model calls of the first window, which is planned before anything runs
LEAST_WINDOW = 256  # rows, also of the first window
WINDOW = 4096  # most rows of a window, unless more run at once
_LOG = logging.getLogger("sgc")


class RowReader:
    """Tells of rows of a program what a plan wants to know.

    Args:
        program: what is run, with constants of the run in it, if there are any.
        backend: whose chat template renders roles; None: it is not made yet.
    """

    def __init__(self, program: Graphs, backend: Backend | None, defaults: SamplingParams) -> None:
        from sgc_ir.analysis.known_calls import Setting

        template: ChatTemplate = backend.chat_template if backend is not None else ChatML()
        self._program = program
        self._setting = Setting(template, _about_tokens, defaults)
        self._told = False

    def facts(self, index: int, values: Mapping[str, Any] | None) -> RowFacts:
        """The facts of a row with the arguments `values`; None for a row that cannot run."""
        from sgc_ir.analysis.follow import follow
        from sgc_ir.analysis.plan import row_facts

        if values is None:
            return NOTHING_KNOWN
        try:
            return row_facts(follow(self._program, values, index, self._setting))
        except Exception as error:  # the row itself says what is wrong with it when it runs
            if not self._told:
                _LOG.debug("the plan knows nothing of row %d: %s", index, error, exc_info=True)
            self._told = True
            return NOTHING_KNOWN

    def windows(self, parallel: int) -> tuple[int, int]:
        """Rows that may be planned before anything runs, and at most at a time."""
        first = max(LEAST_WINDOW, parallel, FIRST_CALLS // max(model_calls(self._program), 1))
        return first, max(first, WINDOW)


def gains_from_order(source: BackendSource) -> bool:
    """Whether a backend computes less when calls that share a prefix come after each other."""
    backend = source.backend
    return backend is None or bool(getattr(backend, "keeps_prefixes", False))


def starts_in_order(
    rows: Iterable[T],
    known: Callable[[T], tuple[int, Mapping[str, Any] | None]],
    program: Graphs,
    job: Job,
    total: int | None,
    whole: bool = False,
) -> Iterator[tuple[T, int]]:
    """Rows in the order in which to start them, each with `shared_chars`; as they come where no
    plan is wanted, or gains anything.

    Args:
        known: index of a row and its arguments; None for those of one that cannot run.
        program: what runs, constants of the run in it.
        total: rows that have to run; of unknown ones nobody waits for more than the next.
        whole: plan all rows at once, whatever the backend; not window by window.
    """
    gains = total is not None and total > 1 and gains_from_order(job.backend)
    if not (job.settings.plan and model_calls(program) and (whole or gains)):
        return ((row, 0) for row in rows)
    reader = RowReader(program, job.backend.backend, job.settings.params)
    parallel = job.settings.parallel
    first, window = (None, None) if whole else reader.windows(parallel)
    planned = InPlanOrder(rows, lambda row: reader.facts(*known(row)), first, window, parallel)
    return iter(planned)


def model_calls(program: Graphs) -> int:
    """Number of model calls that stand in the graphs."""
    return sum(node.op in (Op.GEN, Op.SELECT) for node in program.walk())


def _about_tokens(text: str) -> int:
    return len(text) // 4 + 1


class InPlanOrder(Generic[T]):
    """Rows in the order in which to start them; each with the characters of its first prompt that
    rows which start only when it has ended share.

    Args:
        facts: what is known of a row.
        first, window: rows of the first window, and most rows of one; None: all rows.
        parallel: rows that run at a time.
    """

    def __init__(
        self,
        rows: Iterable[T],
        facts: Callable[[T], RowFacts],
        first: int | None,
        window: int | None,
        parallel: int = 1,
    ) -> None:
        self._rows = iter(rows)
        self._facts = facts
        self._first, self._window, self._parallel = first, window, parallel
        self._failure: Exception | None = None  # of reading; raised behind the rows before it
        self._next: list[tuple[T, RowFacts]] = []

    def __iter__(self) -> Iterator[tuple[T, int]]:
        self._read(self._first)
        while self._next:
            block, self._next = self._next, []
            plan = plan_rows([facts for _, facts in block], self._parallel)
            for place, position in enumerate(plan.order):
                if self._window is not None:
                    self._read(min(2, self._window - len(self._next)))
                yield block[position][0], plan.shared_chars[place]
        if self._failure is not None:
            raise self._failure

    def _read(self, count: int | None) -> None:
        if self._failure is not None:
            return
        try:
            for row in itertools.islice(self._rows, count):
                self._next.append((row, self._facts(row)))
        except Exception as error:
            self._failure = error
