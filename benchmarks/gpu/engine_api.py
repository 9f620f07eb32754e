"""What the benchmarks ask of an engine: prompts as ids, answered all at once. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from benchmarks.gpu.prompts import Ids
from benchmarks.gpu.scripts import Script


@dataclass(frozen=True, slots=True)
class Generated:
    """Of each prompt.

    Attributes:
        ids: generated ids.
        texts: their text.
        cached: prompt tokens that were found in a cache.
    """

    ids: list[Ids]
    texts: list[str] = field(default_factory=list)
    cached: int = 0

    @property
    def new_tokens(self) -> int:
        return sum(map(len, self.ids))


class IdsEngine(Protocol):
    """An engine that takes ids.

    Attributes:
        name: with its version.
        settings: what it was started with.
    """

    name: str
    settings: dict[str, Any]

    def batch(
        self,
        prompts: Sequence[Ids],
        new_tokens: int,
        regex: str | None = None,
        temperature: float = 0.0,
    ) -> Generated:
        """Answer all prompts; without a regex each gets exactly `new_tokens` ids."""
        ...

    def replay(self, script: Script) -> list[Ids]:
        """The ids of each call of a script, calls of all instances at the same time."""
        ...

    def close(self) -> None: ...
