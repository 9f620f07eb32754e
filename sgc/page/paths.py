"""Which nodes of a graph a path of `--stats`, of a forecast or of a trace may mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_COMPONENT = re.compile(r"([a-z]+)(\d+|\*)(?:\[(\d+|\*)\])?")


@dataclass(frozen=True, slots=True)
class CallKey:
    """A model call as statistics name it; `path` may hold `*` for what a run decides."""

    program: str
    path: str
    name: str
    source: str

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> CallKey:
        """The key of a node in `--stats` or in a forecast."""
        return cls(row["program"], row["node"], row["name"], row.get("source") or "")


class NodeFinder:
    """Calls by key.

    Args:
        keys: what can be found.
        relative: paths in `keys` begin in the program in which the call stands, not in the run.
    """

    def __init__(self, keys: Iterable[CallKey], relative: bool = False) -> None:
        self._relative = relative
        self._groups: dict[tuple[str, str], list[tuple[int, CallKey]]] = {}
        for index, key in enumerate(keys):
            self._groups.setdefault((key.program, key.name), []).append((index, key))

    def find(self, wanted: CallKey) -> list[int]:
        """Numbers of the keys that `wanted` may mean: those of its source line where there are
        such, and those whose path is written the same where there are such."""
        group = self._groups.get((wanted.program, wanted.name), [])
        path = in_program(wanted.path) if self._relative else wanted.path
        found = [(i, key) for i, key in group if may_be_equal(key.path, path)]
        found = [(i, key) for i, key in found if key.source == wanted.source] or found
        exact = [i for i, key in found if key.path == path]
        return exact or [i for i, _ in found]


def in_program(path: str) -> str:
    """`path` without the components up to the last sub-program: `f0[1]/c0/g2` is `g2` there."""
    parts = path.split("/")
    last = max((i for i, part in enumerate(parts) if part.startswith("c")), default=-1)
    return "/".join(parts[last + 1 :])


def may_be_equal(first: str, second: str) -> bool:
    """Whether two paths may be of one node, `*` and `?` standing for anything."""
    ours, theirs = first.split("/"), second.split("/")
    return len(ours) == len(theirs) and all(map(_agree, ours, theirs))


def _agree(first: str, second: str) -> bool:
    if first == second or "?" in (first, second):
        return True
    ours, theirs = _COMPONENT.fullmatch(first), _COMPONENT.fullmatch(second)
    if ours is None or theirs is None:
        return False
    return ours[1] == theirs[1] and _same(ours.groups()[1:], theirs.groups()[1:])


def _same(first: Sequence[str | None], second: Sequence[str | None]) -> bool:
    pairs = zip(first, second, strict=True)
    return all(a == b or (a is not None and b is not None and "*" in (a, b)) for a, b in pairs)
