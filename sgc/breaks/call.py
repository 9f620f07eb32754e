"""One call of a program's function: regions where statements are compiled, Python elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import CodeType
from typing import Any

from sgc.breaks.leave import Leaving
from sgc.breaks.pieces import PieceMaker, Pieces, Statement
from sgc.breaks.region import TracedRegion
from sgc.breaks.region_body import RegionBody
from sgc.trace.emit import BREAK, CONTINUE, RETURN_SLOT
from sgc.trace.env import Env
from sgc.trace.refusal import Refusal
from sgc_ir.graph import Program
from sgc_ir.ops import Op
from sgc_runtime.executor.cell import Cell
from sgc_runtime.executor.region_run import RegionRun

_BOOKKEEPING = (Op.ARGUMENT, Op.RETURN, Op.MERGE)


class MixedCall:
    """One call of a program's function."""

    def __init__(self, body: RegionBody, pieces: Pieces, slots: dict[str, Any]) -> None:
        self._body, self._pieces = body, pieces
        self._trace = body.trace
        self._env = Env(slots, body.trace.log)
        self._maker = PieceMaker(pieces, body.trace.runtime, self._env)
        self._made: dict[int, Callable[..., Any]] = {}
        self._loops: list[ast.stmt] = []
        self._log = body.log

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
        pieces, trace = self._pieces, self._trace
        trace.calls_programs = not self._body.asks_handles
        trace.care(self._body.takes_errors > 0)
        self._body.regions.wait()
        traced = TracedRegion(self._body, trace, pieces.function, self._env, statements[0].place)
        self._body.regions.is_tracing = True
        try:
            failure = self._trace_some(traced, statements, len(statements))
            if not self._close(traced, statements):
                failure = None
        finally:
            self._body.regions.is_tracing = False
            traced.leave()
        code = self._run(traced)
        return traced.taken, code, failure

    def _trace_some(
        self, traced: TracedRegion, statements: Sequence[Statement], limit: int
    ) -> Exception | None:
        for statement in statements[:limit]:
            if statement.refused is not None:
                break
            failure = self._attempt(traced, statement)
            if isinstance(failure, Refusal):
                statement.refused = failure
                break
            if failure is not None or traced.code:
                return failure
        return None

    def _attempt(self, traced: TracedRegion, statement: Statement) -> Exception | Refusal | None:
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
                self._trace_some(traced, statements, taken)
        if found is not None:
            statements[traced.taken].refused = found
        return found is None

    def _is_read(self, inside: Sequence[Statement], name: str) -> bool:
        """Whether a local may be read by what follows the statements of a region."""
        lines = self._pieces.reads.get(name, ())
        if self._loops or not inside:
            return bool(lines)
        first, last = inside[0].node.lineno, inside[-1].node.end_lineno or 0
        return any(not first <= line <= last for line in lines)

    def _run(self, traced: TracedRegion) -> Any:
        """Run the region in the row; gives the flow code with which it was left."""
        if traced.is_empty:
            leaving = Leaving(self._body, traced, None, traced.how)
            if leaving.changes_streams:
                self._body.regions.settle(leaving.put_streams)
            leaving.put_containers()
            return traced.how or None
        program = traced.program()
        leaving, code = self._body.regions.of_region(lambda: self._start(traced, program))
        leaving.put_containers()
        return code or None

    def _start(self, traced: TracedRegion, program: Program) -> Cell:
        body, done = self._body, Cell()
        order = body.stream.scope.order()
        run = RegionRun(program, body.stream, traced.world.params, order, self._trace.used)

        def ended(cell: Cell) -> None:
            if cell.error is not None:
                done.fail(cell.error)
                return
            code = run.operand(traced.how)
            there = Cell()
            there.then(lambda _: left(code))
            run.when_there(traced.ends[code].needed, there)

        def left(code: int) -> None:
            leaving = Leaving(body, traced, run, code)
            leaving.put_streams()
            nodes = sum(node.op not in _BOOKKEEPING for node in program.walk())
            self._log.count(compiled=nodes - run.frame.dead)
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
