"""`@sgc.function`: a Python function as a program that is run, bound, compiled or called."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, overload

from sgc.lang.current import current_driver
from sgc.lang.function import ProgramSpec, make_spec
from sgc_ir.errors import SgcError


class Program:
    """A program as written; made by `@sgc.function`."""

    def __init__(self, spec: ProgramSpec) -> None:
        self.spec = spec
        self.__name__ = spec.name
        self.__doc__ = spec.fn.__doc__

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
