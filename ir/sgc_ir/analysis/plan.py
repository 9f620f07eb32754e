"""Plan of a batch: in which order to start its rows.

All known parts of the rows' prompts are walked depth-first (theorem 3.1 of "SGLang: Efficient
Execution of Structured Language Model Programs", arXiv 2312.07104): what rows share is computed
once, whatever follows, with a cache that holds the longest request. Where that leaves a choice,
rows with the longest chain of tokens to decode go first, so that the last thing a run waits for is
short, and else the order of the input stays.

A row may begin several prompts that do not go on from each other (sub-programs, branches). Rows
are grouped by the one by which grouping saves most, inside of a group by the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from sgc_ir.analysis.known_calls import Instance, KnownCall
from sgc_ir.analysis.spans import Span
from sgc_ir.analysis.text_order import common_length, text_order

_MOST_HEADS = 16  # beginnings of a row that count


@dataclass(frozen=True, slots=True)
class RowFacts:
    """What a plan knows of a row.

    Attributes:
        heads: beginnings of its prompts, up to what only the run knows; none begins another one.
        first: the beginning of the first prompt.
        weight: tokens that its longest chain of calls may generate, one after another.
    """

    heads: tuple[str, ...]
    first: str
    weight: float


NOTHING_KNOWN = RowFacts((), "", 0.0)


@dataclass(frozen=True, slots=True)
class RowPlan:
    """An order of rows.

    Attributes:
        order: positions of the rows in the order in which they start.
        shared_chars: for each place in that order, how many characters of the row's first prompt
            rows that start only when it has ended begin with too.
    """

    order: tuple[int, ...]
    shared_chars: tuple[int, ...]


def row_facts(instance: Instance) -> RowFacts:
    """The facts of a row that was followed."""
    known = [_head(call) for call in instance.calls]
    heads: list[str] = []
    for head in known:
        if len(heads) == _MOST_HEADS:
            break
        if not any(other.startswith(head) for other in heads):
            heads = [other for other in heads if not head.startswith(other)] + [head]
    return RowFacts(tuple(heads), known[0] if known else "", longest_chain(instance.calls))


def _head(call: KnownCall) -> str:
    first = call.prompt[0] if call.prompt else ""
    return "" if isinstance(first, Span) else first


def longest_chain(calls: Sequence[KnownCall]) -> float:
    """Tokens on the longest path of calls that wait for each other, each with the most that one
    sample may generate; calls without bound count what they generate at least."""
    ends: dict[int, float] = {}
    for call in calls:
        before = max((ends.get(number, 0.0) for number in call.after), default=0.0)
        tokens = call.tokens_low if call.tokens_high is None else call.tokens_high
        ends[call.number] = before + max(1.0, tokens / (call.samples or 1))
    return max(ends.values(), default=0.0)


def plan_rows(rows: Sequence[RowFacts], parallel: int = 1) -> RowPlan:
    """The order in which to start rows.

    Args:
        parallel: rows that run at a time. Of those behind a row so many are there before it ends,
            and say themselves what they read.
    """
    places = _by_gain(rows)
    keys = ["\0".join([row.heads[i] for i in places if i < len(row.heads)]) for row in rows]
    order = text_order(keys, [row.weight for row in rows])
    firsts = [rows[i].first for i in order]
    later = [*firsts[parallel:], *[""] * parallel]
    return RowPlan(tuple(order), tuple(map(common_length, firsts, later)))


def _by_gain(rows: Sequence[RowFacts]) -> list[int]:
    """Numbers of heads, those first by which grouping saves most."""
    count = max((len(row.heads) for row in rows), default=0)
    if count < 2:
        return list(range(count))
    gains = [_gain([row.heads[i] for row in rows if i < len(row.heads)]) for i in range(count)]
    return sorted(range(count), key=lambda i: (-gains[i], i))


def _gain(heads: list[str]) -> int:
    """Characters that neighbours share when the heads are sorted, without what all share."""
    heads.sort()
    if len(heads) < 2:
        return 0
    static = common_length(heads[0], heads[-1])
    return sum(common_length(a, b) - static for a, b in pairwise(heads))
