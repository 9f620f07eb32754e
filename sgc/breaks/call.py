"""One call of a program's function: regions where statements are compiled, Python elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import CodeType
from typing import Any

from sgc.breaks.bound import BoundRegion
from sgc.breaks.kept import Sites
from sgc.breaks.leave import Leaving
from sgc.breaks.pieces import PieceMaker, Pieces, Statement
from sgc.breaks.region_body import RegionBody
from sgc.breaks.region_maker import RegionMaker
from sgc.trace.emit import BREAK, CONTINUE, RETURN_SLOT
from sgc.trace.env import Env
from sgc_runtime.executor.cell import Cell
from sgc_runtime.executor.region_run import RegionRun


class MixedCall:
    """One call of a program's function."""

    def __init__(
        self, body: RegionBody, pieces: Pieces, sites: Sites, slots: dict[str, Any]
    ) -> None:
        self._body, self._pieces = body, pieces
        self._trace = body.trace
        self._env = Env(slots, body.trace.log)
        self._maker = PieceMaker(pieces, body.trace.runtime, self._env)
        self._made: dict[int, Callable[..., Any]] = {}
        self._loops: list[ast.stmt] = []
        self._log = body.log
        self._regions = RegionMaker(body, pieces, sites, self._env, self._call)

    def run(self) -> Any:
        """The return value."""
        body, pieces = self._body, self._pieces
        body.asks_handles += pieces.asks_handles
        body.takes_errors += pieces.takes_errors
        try:
            self._block(pieces.body)
        finally:
            body.asks_handles -= pieces.asks_handles
            body.takes_errors -= pieces.takes_errors
        return self._env.slots.get(RETURN_SLOT)

    def _call(self, code: CodeType, *args: Any) -> Any:
        found = self._made.get(id(code))
        if found is None:
            found = self._made[id(code)] = self._maker.make(code)
        return found(*args)

    # -- blocks

    def _block(self, statements: Sequence[Statement]) -> Any:
        """Run statements; gives the flow code with which they end."""
        at = 0
        failure: Exception | None = None
        while at < len(statements):
            if self._body.unsplit == 0 and statements[at].refused is None:
                taken, code, failure = self._region(statements[at:])
                at += taken
                if code or at == len(statements):
                    return code
            code = self._python(statements[at], failure)
            if code:
                return code
            at += 1
        return None

    # -- regions

    def _region(self, statements: Sequence[Statement]) -> tuple[int, Any, Exception | None]:
        """Run what of the statements is compiled: their number, the flow code, and what was raised
        while the next one was traced."""
        region, failure = self._regions.region(statements, bool(self._loops))
        return region.code.taken, self._run(region), failure

    def _run(self, region: BoundRegion) -> Any:
        """Run the region in the row; gives the flow code with which it was left."""
        regions = self._body.regions
        if region.code.program is None:
            leaving = Leaving(self._body, region, None, region.code.how)
            if leaving.changes_streams:
                regions.settle(leaving.put_streams)
            leaving.put_containers()
            return region.code.how or None
        leaving, code = regions.of_region(lambda: self._start(region))
        leaving.put_containers()
        return code or None

    def _start(self, region: BoundRegion) -> Cell:
        body, found, done = self._body, region.code, Cell()
        order = body.stream.scope.order()
        run = RegionRun(
            found.executable,
            body.stream,
            region.params,
            order,
            self._trace.used,
            found.is_general,
        )

        def ended(cell: Cell) -> None:
            if cell.error is not None:
                done.fail(cell.error)
                return
            code = run.operand(found.how)
            there = Cell()
            there.then(lambda _: left(code))
            run.when_there(region.ends[code].needed, there)

        def left(code: int) -> None:
            leaving = Leaving(body, region, run, code)
            leaving.put_streams()
            self._log.count(compiled=found.num_nodes - run.frame.dead)
            done.set((leaving, code))

        run.start().then(ended)
        return done

    # -- statements that Python runs

    def _python(self, statement: Statement, failure: Exception | None) -> Any:
        place = statement.place
        if statement.refused is not None:
            error = statement.refused.error
            self._log.note(error.file or place.file, error.line or place.line, error.reason)
        self._log.count(interpreted=1)
        code = self._run_by_python(statement)
        if statement.refused is None and failure is not None:  # and Python did not raise it
            shown = f"{type(failure).__name__} while it was traced: {failure}"
            self._log.note(place.file, place.line, shown)
        return code

    def _run_by_python(self, statement: Statement) -> Any:
        match statement.node:
            case ast.If():
                name = "body" if self._call(statement.native("test")) else "orelse"
                return self._block(statement.blocks[name])
            case ast.For():
                return self._for(statement)
            case ast.While():
                return self._while(statement)
            case ast.With(items=items):
                return self._with(statement, items, 0)
            case ast.Try():
                return self._try(statement)
            case ast.Match():
                subject = self._call(statement.native("subject"))
                number = self._call(statement.native("match"), subject)
                return None if number is None else self._block(statement.inner[number])
        return self._call(statement.native())

    def _for(self, statement: Statement) -> Any:
        put = statement.native("put")
        self._loops.append(statement.node)
        try:
            for item in self._call(statement.native("iter")):
                self._call(put, item)
                code = self._block(statement.blocks["body"])
                if code == BREAK:
                    return None
                if code and code != CONTINUE:
                    return code
        finally:
            self._loops.pop()
        return self._block(statement.blocks["orelse"])

    def _while(self, statement: Statement) -> Any:
        test = statement.native("test")
        self._loops.append(statement.node)
        try:
            while self._call(test):
                code = self._block(statement.blocks["body"])
                if code == BREAK:
                    return None
                if code and code != CONTINUE:
                    return code
        finally:
            self._loops.pop()
        return self._block(statement.blocks["orelse"])

    def _with(self, statement: Statement, items: Sequence[ast.withitem], at: int) -> Any:
        if at == len(items):
            return self._block(statement.blocks["body"])
        manager: AbstractContextManager[Any] = self._call(statement.native(f"ctx{at}"))
        with manager as value:
            if items[at].optional_vars is not None:
                self._call(statement.native(f"put{at}"), value)
            if _is_own(manager):
                return self._with(statement, items, at + 1)
            return self._unsplit(lambda: self._with(statement, items, at + 1))
        return None  # the manager took an error

    def _unsplit(self, run: Callable[[], Any]) -> Any:
        """Run something whose errors are seen where they come from: without regions, in which
        other nodes would go on."""
        self._body.unsplit += 1
        try:
            return run()
        finally:
            self._body.unsplit -= 1

    def _try(self, statement: Statement) -> Any:
        node, blocks = statement.node, statement.blocks
        assert isinstance(node, ast.Try)
        if not node.finalbody:
            return self._handled(statement, node)
        try:
            code = self._unsplit(lambda: self._handled(statement, node))
        except BaseException:
            late = self._block(blocks["finalbody"])
            if late:
                return late
            raise
        return self._block(blocks["finalbody"]) or code

    def _handled(self, statement: Statement, node: ast.Try) -> Any:
        try:
            code = self._unsplit(lambda: self._block(statement.blocks["body"]))
        except BaseException as error:
            for number, handler in enumerate(node.handlers):
                if self._takes(statement, handler, number, error):
                    return self._handler(statement, handler, number, error)
            raise
        return code or self._block(statement.blocks["orelse"])

    def _takes(
        self, statement: Statement, handler: ast.ExceptHandler, number: int, error: BaseException
    ) -> bool:
        if handler.type is None:
            return True
        return isinstance(error, self._call(statement.native(f"type{number}")))

    def _handler(
        self, statement: Statement, handler: ast.ExceptHandler, number: int, error: BaseException
    ) -> Any:
        if handler.name is None:
            return self._block(statement.inner[number])
        self._env[handler.name] = error
        try:
            return self._block(statement.inner[number])
        finally:
            self._env.drop(handler.name)


def _is_own(manager: Any) -> bool:
    """Whether it is a block of a state, which takes no errors."""
    make = getattr(manager, "func", None)
    return getattr(make, "__module__", None) == "sgc.lang.scopes"
