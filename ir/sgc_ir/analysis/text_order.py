"""Depth-first order of the trie of many texts, without building the trie.

Sorted texts are the leaves of their trie from left to right, and how many characters neighbours
share says where its places are. Depth-first order of characters is one of tokens too, whatever the
tokenizer: who shares tokens shares their characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

_BLANKS = " \n\0"
_LONG = 24  # characters that are not shared by chance, although no word ends behind them


@dataclass(slots=True)
class _Place:
    """Texts that share their first `depth` characters; leaves hold one text.

    Attributes:
        weight: of the heaviest text.
        first: number of the text that came first.
        by_chance: the texts only happen to begin with the same letters of a word.
    """

    depth: int
    weight: float
    first: int
    by_chance: bool = False
    children: list[_Place] = field(default_factory=list)

    def add(self, child: _Place) -> None:
        self.children.append(child)
        self.weight = max(self.weight, child.weight)
        self.first = min(self.first, child.first)


def text_order(texts: Sequence[str], weights: Sequence[float] | None = None) -> list[int]:
    """Numbers of the texts in depth-first order of their trie.

    Args:
        weights: of each text, what follows it. Of the ways on from a place the one with the
            heaviest text goes first, among equals the one whose first text came first. A place
            inside of a word holds heavy texts back by nothing: it only joins those of one weight.
    """
    by_text = sorted(range(len(texts)), key=lambda i: (texts[i], i))
    order: list[int] = []
    waiting = [_tree(by_text, texts, weights or [0.0] * len(texts))]
    while waiting:
        place = waiting.pop()
        if place.children:
            waiting += reversed(_ways_on(place))
        elif texts:
            order.append(place.first)
    return order


def _ways_on(place: _Place) -> list[_Place]:
    found: list[_Place] = []
    waiting = [place]
    while waiting:
        here = waiting.pop()
        if here is place or (here.children and here.by_chance):
            waiting += sorted(here.children, key=lambda p: (-p.weight, p.first), reverse=True)
        else:
            found.append(here)
    return sorted(found, key=lambda p: -p.weight)


def _tree(by_text: Sequence[int], texts: Sequence[str], weights: Sequence[float]) -> _Place:
    """The trie of sorted texts; the places from the root to the last leaf are on a stack."""
    stack = [_Place(0, float("-inf"), len(texts))]
    before = ""
    for i in by_text:
        text = texts[i]
        shared = common_length(before, text)
        _fold(stack, shared, not ends_a_word(before, text, shared))
        stack.append(_Place(len(text) + 1, weights[i], i))  # equal texts are leaves of their own
        before = text
    _fold(stack, 0, False)
    return stack[0]


def _fold(stack: list[_Place], shared: int, by_chance: bool) -> None:
    """Close the places behind the first `shared` characters; one that begins there may be new."""
    while stack[-1].depth > shared:
        done = stack.pop()
        if stack[-1].depth < shared:
            stack.append(_Place(shared, float("-inf"), done.first, by_chance))
        stack[-1].add(done)


def ends_a_word(a: str, b: str, end: int) -> bool:
    """Whether the first `end` characters, which two texts share, are whole words or many letters of
    one."""
    if end == 0 or a[end - 1] in _BLANKS:
        return True
    if {text[end] for text in (a, b) if end < len(text)} <= set(_BLANKS):
        return True
    return max(a.rfind(blank, 0, end) for blank in _BLANKS) < end - _LONG


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
