"""The workloads that every engine gets, as plain data: the same ids for the same seed. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from benchmarks.gpu.prompts import Ids, Prompts
from benchmarks.gpu.scripts import PROGRAMS, Script

# A JSON object with bounded repeats; a record that is mostly names and enumerations; a date.
CHARACTER = (
    r'\{"name": "[A-Za-z ]{8,24}", "house": "[A-Za-z ]{8,24}", "age": [0-9]{1,3}, '
    r'"alive": (true|false), "wand": \{"wood": "[A-Za-z]{4,16}", "core": "[A-Za-z ]{4,16}", '
    r'"length": [0-9]{1,2}\.[0-9]\}, "patronus": "[A-Za-z ]{4,24}"\}'
)
_ITEM = r'\{"article": "[A-Z]{2}-[0-9]{4}", "count": [1-9][0-9]?, "gift": (true|false)\}'
ORDER = (
    r'\{"order": [0-9]{6}, "status": "(open|paid|shipped|returned|cancelled)", '
    r'"currency": "(EUR|USD|GBP|JPY|CHF)", "total": [0-9]{1,4}\.[0-9]{2}, '
    r'"delivery": "(standard|express|pick-up)", "items": \[' + _ITEM + ", " + _ITEM + r"\]\}"
)
DATE = (
    r"(Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday), (0[1-9]|[12][0-9]|3[01]) "
    r"(January|February|March|April|May|June|July|August|September|October|November|December) "
    r"(19|20)[0-9]{2}, ([01][0-9]|2[0-3]):[0-5][0-9] (UTC|CET|EST)"
)


@dataclass(frozen=True, slots=True)
class Work:
    """Prompts that are answered all at once, or a program's calls.

    Attributes:
        rows, shared, own: prompts, the ids that all of them begin with, and each one's own.
        new: ids that each gets; with a regex at most.
        program: a name of `PROGRAMS`; then only `scale` counts.
        scale: of a program's sizes.
    """

    rows: int = 0
    shared: int = 0
    own: int = 0
    new: int = 0
    regex: str | None = None
    temperature: float = 0.0
    program: str | None = None
    scale: float = 1.0

    def prompts(self, vocab: int, seed: int) -> list[Ids]:
        return Prompts(vocab, seed).rows(self.rows, self.shared, self.own)

    def script(self, vocab: int, seed: int) -> Script:
        assert self.program is not None
        return PROGRAMS[self.program](Prompts(vocab, seed), self.scale)

    def scaled(self, scale: float) -> Work:
        """A smaller one of the same form, for tries."""
        if scale == 1.0:
            return self
        sizes = {name: getattr(self, name) for name in ("rows", "shared", "own", "new")}
        kept = ("rows", "new") if self.regex else ()
        made = {
            name: size if name in kept[1:] else min(size, max(1, round(size * scale)))
            for name, size in sizes.items()
        }
        return replace(self, **made, scale=self.scale * scale)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def work_of(facts: Mapping[str, Any]) -> Work:
    """From `to_dict`."""
    return Work(**facts)


@dataclass(frozen=True, slots=True)
class PeerPart:
    """A part of `gpu_peers`.

    Attributes:
        what: in one line.
        work: what is timed.
        first: for `d`: the same with one id; only what is behind the first ids counts.
        goal: least ratio of the best peer's time to ours.
        repetitions: timed ones.
    """

    name: str
    what: str
    work: Work
    repetitions: int
    goal: float | None = None
    first: Work | None = None

    @property
    def constrained(self) -> bool:
        return self.work.regex is not None


def parts(scale: float = 1.0) -> dict[str, PeerPart]:
    """By name, the most important first."""
    found = [
        PeerPart("a1", "512 prompts of 1,500 shared + 100 own ids, 1 id each",
                 Work(512, 1500, 100, 1), 3, 1.4),
        PeerPart("a2", "512 prompts of 1,500 shared + 100 own ids, 16 ids each",
                 Work(512, 1500, 100, 16), 3, 1.4),
        PeerPart("d", "one prompt of 128 ids, 513 ids: the time of the last 512",
                 Work(1, 0, 128, 513), 2, 1.2, Work(1, 0, 128, 1)),
        PeerPart("c character", "128 JSON objects with bounded repeats, by a regex",
                 Work(128, 0, 100, 200, CHARACTER), 2, 4.0),
        PeerPart("c order", "128 JSON records of names and enumerations, by a regex",
                 Work(128, 0, 100, 200, ORDER), 2, 4.0),
        PeerPart("c date", "128 dates, by a regex", Work(128, 0, 100, 200, DATE), 2, 4.0),
        PeerPart("b", "256 prompts of 512 ids that share nothing, 256 ids each",
                 Work(256, 0, 512, 256), 2, 1.0),
        *(PeerPart(name, f"LM program: {name}", Work(program=name), 2) for name in PROGRAMS),
        PeerPart("c-free", "128 prompts of 100 ids, 100 ids each, no regex",
                 Work(128, 0, 100, 100), 2),
        PeerPart("s", "128 prompts of 100 ids, 64 ids each at temperature 1",
                 Work(128, 0, 100, 64, temperature=1.0), 2),
    ]  # fmt: skip
    return {part.name: _scaled(part, scale) for part in found}


def _scaled(part: PeerPart, scale: float) -> PeerPart:
    first = None if part.first is None else part.first.scaled(scale)
    return replace(part, work=part.work.scaled(scale), first=first)
