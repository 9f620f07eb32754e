"""Tools: plain Python functions that a program may call as nodes of its graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sgc.lang.current import current_driver
from sgc_ir.errors import SgcError, ToolError

Effect = Literal["pure", "repeatable", "irreversible"]
EFFECTS: tuple[str, ...] = get_args(Effect)


@dataclass(frozen=True)
class Tool:
    """A registered function; calling it directly is a plain Python call.

    Attributes:
        effect: "pure" (no effect, any order), "repeatable" (may run again, keeps program order)
            or "irreversible" (must not run twice, keeps program order).
    """

    fn: Callable[..., Any]
    name: str
    effect: str

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.fn)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)


_REGISTRY: dict[str, Tool] = {}


def tool(
    fn: Callable[..., Any] | None = None, *, effect: Effect | None = None, name: str | None = None
) -> Callable[[Callable[..., Any]], Tool]:
    """Register a function as a tool: `@sgc.tool(effect="pure" | "repeatable" | "irreversible")`.

    Args:
        effect: must be given; a wrong guess could run an order twice.
        name: the registered name, by default the function's own.

    Raises ToolError without an effect, with an unknown one, or for a name that is taken.
    """
    label = getattr(fn, "__name__", "tool") if fn is not None else (name or "tool")
    if fn is not None or effect not in EFFECTS:
        given = "no effect" if effect is None else f"effect={effect!r}"
        raise ToolError(
            f"{label}: {given}; write @sgc.tool(effect=...) with one of {', '.join(EFFECTS)}"
        )
    chosen: str = effect

    def register(function: Callable[..., Any]) -> Tool:
        found = Tool(function, name or function.__name__, chosen)
        _check_name(found)
        _REGISTRY[found.name] = found
        return found

    return register


def _check_name(new: Tool) -> None:
    old = _REGISTRY.get(new.name)
    if old is None or _origin(old) == _origin(new):  # a cell or module that is run again
        return
    raise ToolError(
        f"the tool name {new.name!r} is taken by {'.'.join(_origin(old))}; give @sgc.tool a name="
    )


def _origin(found: Tool) -> tuple[str, str]:
    return found.fn.__module__, found.fn.__qualname__


def registered_tools() -> dict[str, Tool]:
    """Name -> tool, of all that were registered in this process (a copy)."""
    return dict(_REGISTRY)


def find_tool(what: Any) -> Tool:
    """The tool that `sgc.call` was given. Raises ToolError when it is not registered."""
    if isinstance(what, Tool):
        return what
    if isinstance(what, str) and what in _REGISTRY:
        return _REGISTRY[what]
    for found in _REGISTRY.values():
        if found.fn is what:
            return found
    label = what if isinstance(what, str) else getattr(what, "__name__", repr(what))
    raise ToolError(f"{label} is not a tool; decorate it with @sgc.tool(effect=...)")


def call(tool: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a tool as a node of the running program; gives its result, plain JSON data.

    Raises ToolError when the tool raises, is not registered, or gives anything else than JSON data.
    """
    found = find_tool(tool)
    driver = current_driver()
    if driver is None:
        raise SgcError(f"sgc.call({found.name}) outside of a program; call {found.name} itself")
    return driver.tool_call(found, args, kwargs)
