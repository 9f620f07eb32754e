"""Where a text that grows token by token meets its first stop."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple


class StopHit(NamedTuple):
    """A stop: `text[begin:end]` is dropped; `matched` is the stop string or pattern."""

    begin: int
    end: int
    matched: str


def find_stop(
    text: str,
    token_ends: Sequence[int],
    stops: Sequence[str],
    patterns: Sequence[str] = (),
    min_tokens: int = 0,
) -> StopHit | None:
    """The stop that ends `text`, whose tokens end at the character offsets `token_ends`.

    The stop that is complete with the earliest token wins; of those complete with the same token
    the earliest begin, then the first one listed, strings before patterns. A stop that begins
    within the first `min_tokens` tokens is text. Patterns match at least one character.
    """
    if min_tokens > len(token_ends):
        return None
    first = token_ends[min_tokens - 1] if min_tokens > 0 else 0
    found: list[tuple[int, int, int, StopHit]] = []
    for rank, stop in enumerate(stops):
        begin = text.find(stop, first)
        if begin >= 0:
            end = begin + len(stop)
            found.append((bisect_left(token_ends, end), begin, rank, StopHit(begin, end, stop)))
    for rank, pattern in enumerate(patterns, len(stops)):
        hit = _first_match(text, token_ends, re.compile(pattern), first)
        if hit is not None:
            token, match = hit
            stop_hit = StopHit(match[0], match[1], pattern)
            found.append((token, match[0], rank, stop_hit))
    return min(found)[3] if found else None


def _first_match(
    text: str, token_ends: Sequence[int], pattern: re.Pattern[str], first: int
) -> tuple[int, tuple[int, int]] | None:
    for token, end in enumerate(token_ends):
        if end <= first:
            continue
        for match in pattern.finditer(text, first, end):
            if match.end() > match.start():
                return token, match.span()
    return None
