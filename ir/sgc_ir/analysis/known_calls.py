"""The model calls of an instance as they are known before a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sgc_ir.analysis.conditions import Condition
from sgc_ir.analysis.known_stream import Renderer
from sgc_ir.analysis.spans import Span
from sgc_ir.graph import Source
from sgc_ir.params import SamplingParams

NodeKey = tuple[str, str, str]  # program, path with `*` for indexes, variable
_INDEX = re.compile(r"\[\d+\]")


@dataclass(frozen=True, slots=True)
class Setting:
    """What an analysis is told.

    Attributes:
        renderer: gives the text of roles.
        count: tokens of a text.
        defaults: of sampling parameters.
        max_passes, max_depth: passes of one loop whose end the run decides, and sub-programs inside
            each other, that are followed; what goes beyond makes the bounds unknown.
    """

    renderer: Renderer
    count: Callable[[str], int]
    defaults: SamplingParams = field(default_factory=SamplingParams)
    max_passes: int = 256
    max_depth: int = 8


@dataclass(frozen=True, slots=True)
class KnownCall:
    """A gen or select of one row.

    Attributes:
        row, number: of the input row, and of the call in its instance, from 0 in program order.
        program, path, name: as in `--stats`; the path's indexes are those of the run, `*` where
            the run decides.
        prompt: known text, and spans that stand for what only the run knows.
        output: the text of the (first) sample, as it stands in later prompts.
        samples: how many samples; None: the run decides.
        tokens_low, tokens_high: of all samples together; None: without bound.
        condition: outcomes of open predicates under which it happens; empty: it always does.
        repeats: it stands for any number of calls alike, perhaps none.
        after: numbers of the calls that it waits for.
        choices: of a select, where they are known.
        may_lose: a race may cut it off.
    """

    row: int
    number: int
    program: str
    path: str
    name: str
    kind: str
    source: Source
    prompt: tuple[str | Span, ...]
    output: Span
    samples: int | None
    tokens_low: int
    tokens_high: int | None
    condition: Condition
    repeats: bool
    after: frozenset[int]
    choices: tuple[str, ...] | None = None
    may_lose: bool = False

    @property
    def node(self) -> NodeKey:
        """The node that it is a call of; branches of a fork, and passes of a loop, have one."""
        return self.program, _INDEX.sub("[*]", self.path), self.name

    @property
    def calls_low(self) -> int:
        return 0 if self.condition or self.repeats or self.may_lose else 1

    @property
    def calls_high(self) -> int | None:
        return None if self.repeats else 1


@dataclass(frozen=True, slots=True)
class Instance:
    """One row of a program.

    Attributes:
        calls: in program order, on all paths that the run may take.
        failure: why nodes cannot be computed whatever the model says, or None.
        bounded: False where the run decides how often something happens, without bound.
        arguments: of the row.
    """

    row: int
    calls: tuple[KnownCall, ...]
    failure: str | None
    bounded: bool
    arguments: Mapping[str, Any]
