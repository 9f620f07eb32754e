"""Facts of an error that a program took with `except`, as the value of a node."""

from __future__ import annotations

from typing import Any

_MODULES = ("builtins", "sgc_ir.errors")


class TakenError(dict[str, Any]):
    """What `except ... as e` may read of `e`: `text`, `repr`, `type` (the name of its
    class), `reason`, `program`, `instance`, `node`, `source` and `kinds`, the names of its classes.

    Attributes:
        error: the error itself, for `raise`.
    """

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        names = ("reason", "program", "instance", "node", "source")
        facts = {name: getattr(error, name, None) for name in names}
        super().__init__(
            facts,
            text=str(error),
            repr=repr(error),
            type=type(error).__name__,
            kinds=kinds_of(error),
        )
        self.error = error


def kinds_of(error: BaseException) -> tuple[str, ...]:
    """Names of the built-in classes and those of sgc that an error is of, the narrowest first."""
    return tuple(c.__name__ for c in type(error).__mro__ if c.__module__ in _MODULES)
