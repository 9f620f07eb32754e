"""Tools: plain Python functions that a program may call as nodes of its graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sgc.lang.current import current_driver
from sgc_ir.errors import InputError, SgcError, ToolError

Effect = Literal["pure", "repeatable", "irreversible"]
EFFECTS: tuple[str, ...] = get_args(Effect)


@dataclass(frozen=True)
class Tool:
    """A registered function; calling it directly is a plain Python call.

    Attributes:
        effect: "pure" (no effect, any order), "repeatable" (may run again, keeps program order)
            or "irreversible" (must not run twice, keeps program order).
        deadline: seconds that one attempt may take; None: what the run says.
        retries: attempts after the first; None: what the run says.
    """

    fn: Callable[..., Any]
    name: str
    effect: str
    deadline: float | None = None
    retries: int | None = None

    @property
    def origin(self) -> str:
        """Module and qualified name of the function."""
        return f"{self.fn.__module__}.{self.fn.__qualname__}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)


# name -> origin -> tool. A cell or module that is run again replaces its own tool only.
_REGISTRY: dict[str, dict[str, Tool]] = {}
_USED: ContextVar[dict[str, Tool] | None] = ContextVar("sgc_used_tools", default=None)


def tool(
    fn: Callable[..., Any] | None = None,
    *,
    effect: Effect | None = None,
    name: str | None = None,
    deadline: float | None = None,
    retries: int | None = None,
) -> Callable[[Callable[..., Any]], Tool]:
    """Register a function as a tool: `@sgc.tool(effect="pure" | "repeatable" | "irreversible")`.

    Args:
        effect: must be given; a wrong guess could run an order twice.
        name: the registered name, by default the function's own.
        deadline: seconds that one attempt may take. A plain function runs in a thread, which
            cannot be ended: after the deadline the row goes on without it.
        retries: attempts after the first; not for irreversible tools.

    Raises ToolError without an effect or with an unknown one, and for a deadline or retries that
    have no meaning.
    """
    label = getattr(fn, "__name__", "tool") if fn is not None else (name or "tool")
    if fn is not None or effect not in EFFECTS:
        given = "no effect" if effect is None else f"effect={effect!r}"
        raise ToolError(
            f"{label}: {given}; write @sgc.tool(effect=...) with one of {', '.join(EFFECTS)}"
        )
    _check_policy(label, effect, deadline, retries)
    chosen: str = effect

    def register(function: Callable[..., Any]) -> Tool:
        found = Tool(function, name or function.__name__, chosen, deadline, retries)
        _REGISTRY.setdefault(found.name, {})[found.origin] = found
        return found

    return register


def _check_policy(label: str, effect: str, deadline: Any, retries: Any) -> None:
    from sgc.settings import checked_deadline, checked_retries

    try:
        checked_deadline("deadline", deadline)
        checked_retries("retries", 0 if retries is None else retries)
    except InputError as error:
        raise ToolError(f"{label}: {error}") from None
    if retries and effect == "irreversible":
        raise ToolError(f"{label}: retries={retries}; an irreversible tool must not run twice")


def tool_named(name: str) -> Tool:
    """The tool registered under `name`. Raises ToolError for none, or several."""
    found = list(_REGISTRY.get(name, {}).values())
    if not found:
        raise ToolError(f"the tool {name} is not registered; import its module or give tools=")
    if len(found) > 1:
        origins = " and ".join(t.origin for t in found)
        raise ToolError(f"two tools are named {name}: {origins}; give one in tools=, or a name=")
    return found[0]


def find_tool(what: Any) -> Tool:
    """The tool that `sgc.call` was given. Raises ToolError when it is not registered."""
    if isinstance(what, Tool):
        return what
    if isinstance(what, str):
        return tool_named(what)
    for same_name in _REGISTRY.values():
        for found in same_name.values():
            if found.fn is what:
                return found
    label = getattr(what, "__name__", repr(what))
    raise ToolError(f"{label} is not a tool; decorate it with @sgc.tool(effect=...)")


@contextmanager
def noting_tools() -> Iterator[dict[str, Tool]]:
    """The tools that `sgc.call` is given inside of the block, by name."""
    used: dict[str, Tool] = {}
    token = _USED.set(used)
    try:
        yield used
    finally:
        _USED.reset(token)


def _note(found: Tool) -> None:
    used = _USED.get()
    if used is not None and used.setdefault(found.name, found) is not found:
        raise ToolError(
            f"one program calls two tools named {found.name}: {used[found.name].origin} and "
            f"{found.origin}; give one of them a name="
        )


def call(tool: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a tool as a node of the running program; gives its result, plain JSON data.

    Raises ToolError when the tool raises, is not registered, or gives anything else than JSON data.
    """
    found = find_tool(tool)
    _note(found)
    driver = current_driver()
    if driver is None:
        raise SgcError(f"sgc.call({found.name}) outside of a program; call {found.name} itself")
    return driver.tool_call(found, args, kwargs)
