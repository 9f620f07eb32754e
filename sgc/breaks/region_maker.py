"""Gives the region of statements in a row: one that was kept from another row, or a new one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import takewhile
from types import CodeType
from typing import Any

from sgc.breaks.bound import BoundRegion
from sgc.breaks.kept import KeptRegion, Site, Sites
from sgc.breaks.names import roots
from sgc.breaks.pieces import Pieces, Statement
from sgc.breaks.region import TracedRegion
from sgc.breaks.region_body import RegionBody
from sgc.breaks.scene import Scene
from sgc.lang.reach import Reach, reach, unchanged
from sgc.trace.env import Env
from sgc.trace.refusal import Refusal

Failure = Exception | Refusal | None


class RegionMaker:
    """Makes the regions of one call of a program's function.

    Args:
        call: calls the function of a piece of code.
    """

    def __init__(
        self,
        body: RegionBody,
        pieces: Pieces,
        sites: Sites,
        env: Env,
        call: Callable[[CodeType], Any],
    ) -> None:
        self._body, self._pieces, self._sites = body, pieces, sites
        self._env, self._call = env, call
        self._trace = body.trace
        self._in_loop = False

    def region(
        self, statements: Sequence[Statement], in_loop: bool
    ) -> tuple[BoundRegion, Exception | None]:
        """What of the statements is compiled, and what was raised while the next one was traced.
        `in_loop`: they may run once more."""
        self._in_loop = in_loop
        self._trace.calls_programs = not self._body.asks_handles
        self._trace.care(self._body.takes_errors > 0)
        self._body.regions.wait()
        site = self._site(statements)
        now = self._reach(site) if site.is_open else None
        while True:
            open_types = site.open_types
            scene = self._scene(site, now, open_types)
            kept = None if now is None or scene.key is None else site.find(scene, now)
            if kept is not None and self._may_use(kept):
                return kept.bind(scene, self._env), None
            if now is None or not scene.values:
                return self._traced(statements, site, scene, now)
            found = self._trial(statements, site, scene, now)
            if found is not None:
                return found, None
            site.refuse(open_types)

    # -- regions of other rows

    def _site(self, statements: Sequence[Statement]) -> Site:
        compiled = takewhile(lambda statement: statement.refused is None, statements)
        trace = self._trace
        called = trace.main, trace.calls_programs, trace.takes_errors, self._in_loop
        return self._sites.at(list(compiled), *called)

    def _scene(self, site: Site, now: Reach | None, open_types: tuple[type, ...]) -> Scene:
        stream, slots = self._body.stream, self._env.slots
        scene = Scene(stream, slots, None if now is None else site.names, open_types)
        outside = set(map(id, now.values)) if now is not None and scene.containers else ()
        if any(id(container) in outside for container in scene.containers):
            return Scene(stream, slots, None, ())  # others see it too
        return scene

    def _reach(self, site: Site) -> Reach:
        """What the statements lead to outside of the row."""
        return reach(None, roots(self._pieces.function, site.names))

    def _may_use(self, kept: KeptRegion) -> bool:
        """Whether the names of a region's tools are not those of others; they are noted."""
        used, tools = self._trace.used, kept.code.tools
        if any(used.get(name, tool) is not tool for name, tool in tools.items()):
            return False
        used.update(tools)
        return True

    def _keep(
        self, traced: TracedRegion, region: BoundRegion, site: Site, scene: Scene, now: Reach
    ) -> None:
        """Keep a region for other rows, unless what it has looked at has changed meanwhile."""
        if unchanged(now, self._reach(site)):
            code, world = region.code, traced.world
            site.keep(scene, now, lambda: KeptRegion(code, region.ends, world, self._env, scene))

    # -- new ones

    def _trial(
        self, statements: Sequence[Statement], site: Site, scene: Scene, now: Reach
    ) -> BoundRegion | None:
        """The region with some values left to the run; None where something refuses that."""
        with self._tracing(statements, scene) as traced:
            failure = self._trace_some(traced, statements)
            if failure is not None or not self._closes(traced, statements):
                traced.abandon()
                return None
            region = traced.bound(is_general=True)
        self._keep(traced, region, site, scene, now)
        return region

    def _traced(
        self, statements: Sequence[Statement], site: Site, scene: Scene, now: Reach | None
    ) -> tuple[BoundRegion, Exception | None]:
        """The region with all values as constants, and what was raised behind it."""
        with self._tracing(statements, scene) as traced:
            failure = self._trace_some(traced, statements)
            if isinstance(failure, Refusal):
                statements[traced.taken].refused = failure
            is_whole = self._close(traced, statements)
            region = traced.bound(is_general=False)
        if is_whole and failure is None and now is not None and scene.key is not None:
            self._keep(traced, region, site, scene, now)
        if isinstance(failure, Refusal) or not is_whole:
            return region, None
        return region, failure

    @contextmanager
    def _tracing(self, statements: Sequence[Statement], scene: Scene) -> Iterator[TracedRegion]:
        function, place = self._pieces.function, statements[0].place
        traced = TracedRegion(self._body, self._trace, function, self._env, place, scene)
        self._body.regions.is_tracing = True
        try:
            yield traced
        finally:
            self._body.regions.is_tracing = False
            traced.leave()

    def _trace_some(self, traced: TracedRegion, statements: Sequence[Statement]) -> Failure:
        for statement in statements:
            if statement.refused is not None:
                break
            failure = self._attempt(traced, statement)
            if failure is not None or traced.code:
                return failure
        return None

    def _attempt(self, traced: TracedRegion, statement: Statement) -> Failure:
        node = statement.node
        if isinstance(node, ast.FunctionDef) and not node.decorator_list:
            return traced.attempt(lambda: self._define(statement))
        try:
            code = statement.traced()
        except Refusal as refusal:
            return refusal
        return traced.attempt(lambda: self._call(code))

    def _define(self, statement: Statement) -> None:
        """A local function, in both forms."""
        name = statement.node.name  # type: ignore[attr-defined]
        twin = self._call(statement.twin())
        self._call(statement.native())
        native = self._env[name]
        twin.__defaults__, twin.__kwdefaults__ = native.__defaults__, native.__kwdefaults__
        self._trace.twins[id(native)] = (native, twin)

    # -- their ends

    def _closes(self, traced: TracedRegion, statements: Sequence[Statement]) -> bool:
        """End the region, if Python could go on with it."""
        try:
            traced.close(partial(self._is_read, statements[: traced.taken]))
        except Refusal:
            return False
        return True

    def _close(self, traced: TracedRegion, statements: Sequence[Statement]) -> bool:
        """End the region, without its last statements where Python could not go on with it: the
        first of these is refused. Gives whether all of them are in it."""
        found: Refusal | None = None
        while True:
            try:
                traced.close(partial(self._is_read, statements[: traced.taken]))
                break
            except Refusal as refusal:
                if traced.taken == 0:
                    raise
                found, taken = refusal, traced.taken - 1
                traced.restart()
                self._trace_some(traced, statements[:taken])
        if found is not None:
            statements[traced.taken].refused = found
        return found is None

    def _is_read(self, inside: Sequence[Statement], name: str) -> bool:
        """Whether a local may be read by what follows the statements of a region."""
        lines = self._pieces.reads.get(name, ())
        if self._in_loop or not inside:
            return bool(lines)
        first, last = inside[0].node.lineno, inside[-1].node.end_lineno or 0
        return any(not first <= line <= last for line in lines)
