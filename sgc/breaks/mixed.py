"""Runs a program statement by statement: as compiled regions where it can, else as Python does."""

from __future__ import annotations

import contextvars
from collections.abc import Mapping
from typing import Any

from sgc.breaks.call import MixedCall
from sgc.breaks.kept import Sites
from sgc.breaks.pieces import NotSplit, Pieces
from sgc.breaks.region_body import RegionBody
from sgc.breaks.report import BreakLog
from sgc.lang.body import Body
from sgc.lang.function import ProgramSpec
from sgc.lang.interpreter import run_body
from sgc.lang.state import ProgramState
from sgc.trace.refusal import Refusal
from sgc_runtime.executor.context import RunContext
from sgc_runtime.executor.state import FinishedState
from sgc_runtime.executor.stream import Stream


class MixedPrograms:
    """The programs of a run, taken apart when they are first called; any thread."""

    def __init__(self) -> None:
        self.log = BreakLog()
        self.sites = Sites()
        self._pieces: dict[int, tuple[ProgramSpec, Pieces | None]] = {}

    def pieces(self, spec: ProgramSpec) -> Pieces | None:
        """The statements of a program; None for one that only runs as a whole."""
        found = self._pieces.get(id(spec.fn))
        if found is None:
            found = self._pieces[id(spec.fn)] = (spec, self._taken_apart(spec))
        return found[1]

    def _taken_apart(self, spec: ProgramSpec) -> Pieces | None:
        try:
            return Pieces(spec)
        except NotSplit as reason:
            self.log.note(spec.file, spec.first_line, f"{spec.name} is run by Python: {reason}")
        except Refusal as refusal:
            error = refusal.error
            self.log.note(error.file or spec.file, error.line or spec.first_line, error.reason)
        return None

    async def execute(
        self,
        spec: ProgramSpec,
        values: Mapping[str, Any],
        ctx: RunContext,
        context: contextvars.Context,
    ) -> FinishedState:
        """Run one row of `spec`; see `sgc.lang.interpreter.interpret`."""
        root = Stream(ctx)
        return await run_body(MixedBody(ctx, spec, root, self), values, context, "mixed")


class MixedBody(RegionBody):
    """The driver of a body whose statements run in regions."""

    def __init__(
        self, ctx: RunContext, spec: ProgramSpec, stream: Stream, programs: MixedPrograms
    ) -> None:
        super().__init__(ctx, spec, stream, programs.log)
        self.programs = programs

    def body_of(self, spec: ProgramSpec, stream: Stream) -> Body:
        made = MixedBody(self.ctx, spec, stream, self.programs)
        # what this body takes of its sub-programs' errors they must meet where Python would
        made.unsplit = self.unsplit + self.asks_handles + self.takes_errors
        return made

    def run_function(
        self, spec: ProgramSpec, state: ProgramState, values: Mapping[str, Any]
    ) -> Any:
        pieces = self.programs.pieces(spec)
        if pieces is None:
            self.programs.log.count(interpreted=1)
            return super().run_function(spec, state, values)
        receiver = getattr(spec.fn, "__self__", None)
        first = [state] if receiver is None else [receiver, state]
        slots = {**dict(zip(pieces.parameters, first, strict=False)), **values}
        return MixedCall(self, pieces, self.programs.sites, slots).run()
