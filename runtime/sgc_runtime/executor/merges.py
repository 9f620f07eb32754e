"""Equal calls of a run, of all rows and nodes: the first one is made, the others take its result.

What is equal is the matter of whoever asks (`sgc_runtime.backends.merging` for model calls,
`tool_key` for pure tools); here is who waits for whom. A call that fails, or whose row ends before
it, is made by the next one that waits for it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import Any, NamedTuple

from sgc_ir.params import CallResult, Usage
from sgc_runtime.executor.tools import Tool

KEPT = 65_536  # results that are kept for calls to come, those used last
_DIGEST_BYTES = 20
_COUNTS = tuple(f.name for f in fields(Usage))


class Place(NamedTuple):
    """Where a call stands: input row and dynamic path of its node."""

    row: int
    node: str


@dataclass(frozen=True, slots=True)
class MergedResult(CallResult):
    """What a model call gave that another one has made; it used up nothing."""


class _Entry:
    __slots__ = ("done", "ended", "place", "value")

    def __init__(self, place: Place) -> None:
        self.place = place
        self.done = False
        self.value: Any = None
        self.ended: asyncio.Future[None] | None = None  # while it is being made


class Merges:
    """The calls of one run that may be merged. Event-loop thread only, but for the counts.

    Attributes:
        calls: calls that took the result of another one.
        saved: what they would have used, as their rows report it.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.saved = Usage()
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()  # by last use
        self._merged: dict[tuple[str, str], list[tuple[int, int]]] = {}

    async def once(
        self, key: bytes, place: Place, make: Callable[[], Awaitable[Any]]
    ) -> tuple[Any, bool]:
        """What `make()` gives, or gave for an equal call; and whether it was made here.

        Raises what `make` raises.
        """
        while (entry := self._entries.get(key)) is not None:
            if entry.ended is not None:
                await asyncio.shield(entry.ended)
            if entry.done:
                self._entries.move_to_end(key)
                self._note(place, entry.place)
                return entry.value, False
        return await self._make(key, place, make), True

    async def _make(self, key: bytes, place: Place, make: Callable[[], Awaitable[Any]]) -> Any:
        entry = self._entries[key] = _Entry(place)
        entry.ended = asyncio.get_running_loop().create_future()
        try:
            entry.value = await make()
            entry.done = True
            return entry.value
        finally:
            ended, entry.ended = entry.ended, None
            if not entry.done:
                del self._entries[key]
            ended.set_result(None)
            self._forget_old()

    def know(self, key: bytes, place: Place, value: Any) -> None:
        """What a call has given is known without making it."""
        if key not in self._entries:
            entry = self._entries[key] = _Entry(place)
            entry.value, entry.done = value, True
            self._forget_old()

    def save(self, usage: Usage) -> None:
        """A merged call would have used so much."""
        self.saved += usage

    def without_saved(self, reported: Usage) -> Usage:
        """Of what rows report, what the calls that were made used: no less than nothing, since a
        row reports at its end what was merged in it before."""
        return Usage(
            *(max(0, getattr(reported, name) - getattr(self.saved, name)) for name in _COUNTS)
        )

    def to_list(self) -> list[dict[str, Any]]:
        """Each merged call, for `--stats`: its node and the one that was made in its place, and for
        each of them its row and the other one's."""
        return [
            {"node": node, "made": made, "rows": [list(pair) for pair in pairs]}
            for (node, made), pairs in list(self._merged.items())
        ]

    def _note(self, place: Place, made: Place) -> None:
        self.calls += 1
        self._merged.setdefault((place.node, made.node), []).append((place.row, made.row))

    def _forget_old(self) -> None:
        while len(self._entries) > KEPT:
            key, entry = next(iter(self._entries.items()))
            if not entry.done:  # few are being made at a time
                self._entries.move_to_end(key)
                return
            del self._entries[key]


def tool_key(tool: Tool, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes | None:
    """Key of a call of a pure tool; None where it may not be merged."""
    if tool.effect != "pure":
        return None
    try:
        return key_of(["tool", tool.name, list(args), dict(kwargs)])
    except (TypeError, ValueError, OverflowError):
        return None  # an argument is no plain data


def key_of(value: Any) -> bytes:
    """Digest of plain data, types told apart. Raises TypeError, ValueError or OverflowError for
    anything else in it."""
    return blake2b(_packed(value), digest_size=_DIGEST_BYTES).digest()


def _packed(value: Any) -> bytes:
    import msgpack  # programs without merged calls need not have it

    data: bytes = msgpack.packb(
        value, default=_plain, strict_types=True, unicode_errors="surrogatepass"
    )
    return data


def _plain(value: Any) -> Any:
    from msgpack import ExtType

    if isinstance(value, tuple):
        return ExtType(1, _packed(list(value)))
    if type(value) is not dict and isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no plain data")
