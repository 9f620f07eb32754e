"""Environments: the slots of a function's locals, and the frames that are active."""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any

from sgc.trace.refusal import refuse
from sgc.trace.symbol import Poison

if TYPE_CHECKING:
    from sgc.trace.log import Log


class Env:
    """Locals of one call (or one comprehension) by name; `$ret` holds the returned value."""

    __slots__ = ("log", "slots")

    def __init__(self, slots: dict[str, Any], log: Log) -> None:
        self.slots = slots
        self.log = log

    def __getitem__(self, name: str) -> Any:
        try:
            value = self.slots[name]
        except KeyError:
            raise UnboundLocalError(
                f"cannot access local variable '{name}' where it is not associated with a value"
            ) from None
        if type(value) is Poison:
            raise refuse(value.why, expression=name)
        return value

    def __setitem__(self, name: str, value: Any) -> None:
        if self.log.frames:
            self.log.touch(self)
        self.slots[name] = value

    def __delitem__(self, name: str) -> None:
        self[name]
        self.log.touch(self)
        del self.slots[name]

    def put(self, name: str, value: Any) -> Any:
        """Assign, and give the value (`name := value`)."""
        self[name] = value
        return value

    def update(self, values: Mapping[str, Any]) -> None:
        """Assign several names."""
        self.log.touch(self)
        self.slots.update(values)

    def drop(self, name: str) -> None:
        """Forget a name, if it is set."""
        self.log.touch(self)
        self.slots.pop(name, None)


class Frame:
    """An active call of rewritten code; its environment, cells and globals are state."""

    __slots__ = ("env", "fn")

    def __init__(self, fn: FunctionType | None, env: Env | None = None) -> None:
        self.fn = fn
        self.env = env
