"""`@sgc.function`: a Python function as a program that is run, bound, compiled or called."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, overload

from sgc.lang.current import current_driver
from sgc.lang.function import ProgramSpec, make_spec
from sgc.lang.reach import Reach, reach, unchanged
from sgc.lang.tools import Tool
from sgc.runnable import Execute, NodeNames, Runnable, Values
from sgc_ir.errors import CompileError, InputError, SgcError, ToolError
from sgc_runtime.executor.tools import IRREVERSIBLE

if TYPE_CHECKING:
    from sgc.breaks.report import BreakLog
    from sgc.compile import CompiledProgram
    from sgc_runtime.executor.context import RunContext
    from sgc_runtime.executor.state import FinishedState

logger = logging.getLogger("sgc")


class Program(Runnable):
    """A program as written; made by `@sgc.function`."""

    def __init__(self, spec: ProgramSpec) -> None:
        self.spec = spec
        self.__name__ = spec.name
        self.__doc__ = spec.fn.__doc__
        self._lock = threading.Lock()
        self._told = False
        self.breaks: BreakLog | None = None
        self._kept: tuple[Reach, CompiledProgram | SgcError] | None = None

    def __repr__(self) -> str:
        return f"<sgc program {self.spec.name} at {self.spec.place}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Inside of another program: run in a stream of its own; gives a handle at once."""
        driver = current_driver()
        if driver is None:
            raise SgcError(
                f"{self.spec.name} is a program; run it with {self.spec.name}.run(...), "
                "or call it inside of another program"
            )
        return driver.sub_program(self, args, kwargs)

    def bind(self, **values: Any) -> Program:
        """The program with arguments fixed. Raises InputError for unknown or bound names."""
        return Program(self.spec.bind(values))

    def compile(self, **static: Any) -> CompiledProgram:
        """Trace the program into a graph; `static` arguments become constants of it.

        Raises CompileError, with file and line, for what cannot be compiled, and InputError for
        unknown or bound names.
        """
        from sgc.compile import compile_spec

        return compile_spec(self.spec.bind(static))

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return tuple([p.name for p in self.spec.params])

    def arguments(self, args: tuple[Any, ...], kwargs: Values) -> dict[str, Any]:
        return self.spec.arguments(args, kwargs)

    def irreversible_tools(self) -> frozenset[str]:
        found = reach(self.spec.fn, self.spec.bound.values()).values
        return frozenset(v.name for v in found if isinstance(v, Tool) and v.effect == IRREVERSIBLE)

    def _executor(self, mode: str) -> tuple[str, Execute, NodeNames | None]:
        if mode != "interpreted":
            compiled = self._compiled()
            if not isinstance(compiled, SgcError):
                return compiled._executor("compiled")
            if mode == "compiled":
                raise compiled.with_traceback(None)
            self._tell(compiled)
            return "mixed", self._mixed(), None
        return "interpreted", self._interpret, None

    def _mixed(self) -> Execute:
        """How to execute a row in compiled regions that Python joins."""
        from sgc.breaks.mixed import MixedPrograms

        programs = MixedPrograms()
        self.breaks = programs.log

        async def execute(
            values: Values, ctx: RunContext, context: contextvars.Context
        ) -> FinishedState:
            return await programs.execute(self.spec, values, ctx, context)

        return execute

    def _for_batch(self, rows: Sequence[Any]) -> CompiledProgram:
        compiled = self._compiled()
        assert not isinstance(compiled, SgcError), "its rows run interpreted"
        return compiled._for_batch(rows)

    def _compiled(self) -> CompiledProgram | SgcError:
        """The graph for the globals and closures as they are now, or why there is none."""
        now = reach(self.spec.fn, self.spec.bound.values())
        with self._lock:
            if self._kept is not None and unchanged(self._kept[0], now):
                return self._kept[1]
        found: CompiledProgram | SgcError
        try:
            found = self.compile()
        except (CompileError, InputError, ToolError) as error:
            found = error
        with self._lock:
            self._kept = (now, found) if now.complete else None
        return found

    def _tell(self, error: SgcError) -> None:
        with self._lock:
            told, self._told = self._told, True
        if not told:
            logger.warning("%s is compiled in part: %s", self.spec.name, error)

    async def _interpret(
        self, values: Values, ctx: RunContext, context: contextvars.Context
    ) -> FinishedState:
        from sgc.lang.interpreter import interpret

        return await interpret(self.spec, values, ctx, context)


@overload
def function(fn: Callable[..., Any], /) -> Program: ...
@overload
def function(
    *, outputs: Iterable[str] | None = None
) -> Callable[[Callable[..., Any]], Program]: ...
def function(
    fn: Callable[..., Any] | None = None, /, *, outputs: Iterable[str] | None = None
) -> Program | Callable[[Callable[..., Any]], Program]:
    """Make a program of a function whose first parameter is the prompt state.

    Args:
        outputs: names of the variables that matter; undeclared, every node is an output.

    Raises CompileError for what cannot be a program: async and generator functions, methods,
    `*args`, classes and built-ins.
    """
    if fn is not None:
        return Program(make_spec(fn, outputs))
    return lambda function: Program(make_spec(function, outputs))
