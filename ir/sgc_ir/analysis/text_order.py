"""Depth-first order of the trie of many texts, without building the trie.

Sorted texts are the leaves of their trie from left to right, and how many characters neighbours
share says where its places are. Sharing counts in whole words (of at most `_WORD` characters), so
that texts which only happen to begin with the same letters stay in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

_BLANKS = " \n\0"
_WORD = 24


@dataclass(slots=True)
class _Place:
    """Texts that share their first `depth` characters; leaves hold one text."""

    depth: int
    weight: float
    first: int  # number of the text that came first
    children: list[_Place] = field(default_factory=list)

    def add(self, child: _Place) -> None:
        self.children.append(child)
        self.weight = max(self.weight, child.weight)
        self.first = min(self.first, child.first)


def text_order(texts: Sequence[str], weights: Sequence[float] | None = None) -> list[int]:
    """Numbers of the texts in depth-first order of their trie.

    Args:
        weights: of each text, what follows it; of the ways on from a place the one with the
            heaviest text goes first, among equals the one whose first text came first.
    """
    if not texts:
        return []
    by_text = sorted(range(len(texts)), key=lambda i: (texts[i], i))
    root = _tree(by_text, texts, weights or [0.0] * len(texts))
    order: list[int] = []
    waiting = [root]
    while waiting:
        place = waiting.pop()
        if place.children:
            waiting += sorted(place.children, key=lambda c: (-c.weight, c.first), reverse=True)
        else:
            order.append(place.first)
    return order


def _tree(by_text: Sequence[int], texts: Sequence[str], weights: Sequence[float]) -> _Place:
    """The trie of sorted texts; the places from the root to the last leaf are on a stack."""
    stack = [_Place(0, float("-inf"), len(texts))]
    before = ""
    for i in by_text:
        shared = words_in_common(before, texts[i])
        _fold(stack, shared)
        stack.append(
            _Place(len(texts[i]) + 1, weights[i], i)
        )  # equal texts are leaves of their own
        before = texts[i]
    _fold(stack, 0)
    return stack[0]


def _fold(stack: list[_Place], shared: int) -> None:
    """Close the places behind the first `shared` characters; one that begins there may be new."""
    while stack[-1].depth > shared:
        done = stack.pop()
        if stack[-1].depth < shared:
            stack.append(_Place(shared, float("-inf"), done.first))
        stack[-1].add(done)


def words_in_common(a: str, b: str) -> int:
    """Characters of the whole words that two texts begin with, blanks behind them included."""
    end = common_length(a, b)
    if end == len(a) == len(b) or _ends_a_word(a, b, end):
        return end
    last = max(a.rfind(blank, max(0, end - _WORD), end) for blank in _BLANKS) + 1
    return last if last or end < _WORD else end


def _ends_a_word(a: str, b: str, end: int) -> bool:
    if end == 0 or a[end - 1] in _BLANKS:
        return True
    following = {text[end] for text in (a, b) if end < len(text)}
    return following <= set(_BLANKS)


def common_length(a: str, b: str) -> int:
    """Characters that two texts begin with alike."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
