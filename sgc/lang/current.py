"""The driver of the program whose body runs here: the interpreter, or the tracer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol


class Driver(Protocol):
    """What calls without a state reach: `sub(x)` and `sgc.call(tool, x)`."""

    @property
    def live(self) -> bool:
        """True when values are those of a row that runs, False when they are recorded."""
        ...

    def sub_program(self, program: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Start `program` (a `sgc.program.Program`) in a stream of its own; gives its handle."""
        ...

    def tool_call(self, tool: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call `tool` (a `sgc.lang.tools.Tool`); gives its result."""
        ...

    def first(self, count: Any, branches: Any) -> Any:
        """Of branches or handles the first `count` that finish; gives what they give."""
        ...


_DRIVER: ContextVar[Driver | None] = ContextVar("sgc_driver", default=None)


def current_driver() -> Driver | None:
    """The driver of this thread's program body, or None outside of one."""
    return _DRIVER.get()


@contextmanager
def driving(driver: Driver) -> Iterator[None]:
    """Make `driver` the current one inside the block."""
    token = _DRIVER.set(driver)
    try:
        yield
    finally:
        _DRIVER.reset(token)


def is_live() -> bool:
    """Whether an interpreted program runs here, so that values are data of a row."""
    driver = _DRIVER.get()
    return driver is not None and driver.live
