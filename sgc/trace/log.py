"""The undo log: what the containers, streams and graphs that a path writes to held before.

A frame notes the content of each object before its first write. The log has a frame for each
construct whose paths may differ; while there is none, nothing is noted. A `Path` is the state at
the end of one way through a construct, as far as it differs from the state at its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sgc.trace.containers import content_of, is_container, is_module_names, put_content
from sgc.trace.operand import walk
from sgc.trace.refusal import refuse
from sgc_ir.tokens import Arms

Contents = dict[int, tuple[Any, Any]]  # id -> (object, its content)


@dataclass(frozen=True, slots=True)
class Path:
    """One way that leads somewhere.

    Attributes:
        arms: the token under which it was taken.
        contents: of all that was written since the start of the construct that joins it.
        facts: what is known of run-time values on it, see `sgc.trace.facts`.
        error: what it has raised, if it has.
    """

    arms: Arms
    contents: Contents
    facts: Mapping[Any, Any]
    error: Exception | None = None


def saved(value: Any) -> Any:
    """A copy of the state of a container, or of an object of the tracer."""
    fields = getattr(type(value), "_sgc_fields", None)
    if fields is None:
        return content_of(value)
    return {name: _copied(getattr(value, name)) for name in fields if hasattr(value, name)}


def put_back(value: Any, content: Any) -> None:
    """Give an object the state of a copy."""
    if not hasattr(type(value), "_sgc_fields"):
        put_content(value, content)
        return
    for name, field in content.items():
        setattr(value, name, _copied(field))


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, dict | list) else value


class Log:
    """What containers, streams and graphs held before, to undo what a path has changed.

    Attributes:
        frames: one a construct, the innermost last.
    """

    __slots__ = ("frames",)

    def __init__(self) -> None:
        self.frames: list[Contents] = []

    def touch(self, value: Any) -> None:
        """`value` is about to be changed. Refuses globals of a module."""
        if is_module_names(value):
            raise refuse(
                f"the globals of {value.get('__name__')} are changed, which is state of the whole "
                "process; keep the value in the program"
            )
        if self.frames:
            frame = self.frames[-1]
            if id(value) not in frame:
                frame[id(value)] = (value, saved(value))

    def touch_all(self, values: Iterable[Any]) -> None:
        """Code that is not rewritten gets `values`, and may change what is inside of them."""
        if self.frames:
            for root in values:
                for value in walk(root):
                    if is_container(value):
                        self.touch(value)

    @contextmanager
    def frame(self) -> Iterator[Contents]:
        """A frame; what was written in it counts as written in the one around it, afterwards."""
        own: Contents = {}
        self.frames.append(own)
        try:
            yield own
        finally:
            self.frames.pop()
            if self.frames:
                outer = self.frames[-1]
                for key, entry in own.items():
                    outer.setdefault(key, entry)

    def written(self, depth: int) -> Contents:
        """Present contents of all that was written in frame `depth` and those inside of it."""
        found: Contents = {}
        for frame in self.frames[depth:]:
            for key, (value, _) in frame.items():
                if key not in found:
                    found[key] = (value, saved(value))
        return found


def undo(frame: Contents) -> None:
    """Make everything what it was at the start of a frame."""
    for value, content in frame.values():
        put_back(value, content)


def changed(frame: Contents) -> bool:
    """Whether something is not what it was at the start of a frame."""
    return any(not _same(saved(value), content) for value, content in frame.values())


def _same(new: Any, old: Any) -> bool:
    if isinstance(old, dict):
        return list(new) == list(old) and all(_is(new[k], v) for k, v in old.items())
    return len(new) == len(old) and all(map(_is, new, old))


def _is(new: Any, old: Any) -> bool:
    if new is old:
        return True
    if isinstance(old, dict) and isinstance(new, dict):
        return _same(new, old)
    if isinstance(old, list) and isinstance(new, list):
        return _same(new, old)
    return type(new) is type(old) and type(new) in (str, bytes, int, bool) and bool(new == old)
