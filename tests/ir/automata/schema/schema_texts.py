"""Reading schema automata in tests: instances in any order of members, and random texts."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from sgc_ir.automata.automaton import DEAD, Automaton

SEPARATORS = {"spaced": (", ", ": "), "compact": (",", ":")}


def written(value: Any, style: str = "spaced") -> str:
    """`value` as `json.dumps` writes it in a style."""
    if style == "pretty":
        return json.dumps(value, ensure_ascii=False, indent=2)
    return json.dumps(value, ensure_ascii=False, separators=SEPARATORS[style])


def accepts(automaton: Automaton, text: str) -> bool:
    state = automaton.walk(automaton.start, text.encode("utf-8"))
    return state != DEAD and automaton.is_accepting(state)


def accepts_in_some_order(automaton: Automaton, value: Any) -> bool:
    """Whether `value` is accepted with the members of its objects in some order (style spaced)."""
    states = _behind(automaton, automaton.start, value)
    return any(automaton.is_accepting(state) for state in states)


def _step(automaton: Automaton, state: int, text: str) -> Iterator[int]:
    state = automaton.walk(state, text.encode("utf-8"))
    if state != DEAD:
        yield state


def _behind(automaton: Automaton, state: int, value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        for inside in _step(automaton, state, "{"):
            yield from _members(automaton, inside, dict(value), "")
    elif isinstance(value, list):
        for inside in _step(automaton, state, "["):
            yield from _items(automaton, inside, value, "")
    else:
        yield from _step(automaton, state, written(value))


def _members(automaton: Automaton, state: int, left: dict[str, Any], comma: str) -> Iterator[int]:
    if not left:
        yield from _step(automaton, state, "}")
    for name in left:
        rest = {other: value for other, value in left.items() if other != name}
        for inside in _step(automaton, state, f"{comma}{written(name)}: "):
            for behind in _behind(automaton, inside, left[name]):
                yield from _members(automaton, behind, rest, ", ")


def _items(automaton: Automaton, state: int, left: list[Any], comma: str) -> Iterator[int]:
    if not left:
        yield from _step(automaton, state, "]")
        return
    for inside in _step(automaton, state, comma):
        for behind in _behind(automaton, inside, left[0]):
            yield from _items(automaton, behind, left[1:], ", ")


def random_text(automaton: Automaton, rng: random.Random, length: int = 120) -> str:
    """A random legal text: free for about `length` bytes, then the shortest way to an end."""
    data, state = bytearray(), automaton.start
    size = rng.randrange(length)
    while True:
        if automaton.is_accepting(state) and (len(data) >= size or rng.random() < 0.3):
            return data.decode("utf-8")
        if len(data) >= size:
            return (bytes(data) + _shortest_end(automaton, state)).decode("utf-8")
        ways = automaton.ways(state)
        if not ways:
            return data.decode("utf-8")
        low, high, state = rng.choice(ways)
        data.append(rng.randint(low, high))


def _shortest_end(automaton: Automaton, start: int) -> bytes:
    seen, level = {start}, [(start, b"")]
    while level:
        following = []
        for state, data in level:
            if automaton.is_accepting(state):
                return data
            for low, _, after in automaton.ways(state):
                if after not in seen:
                    seen.add(after)
                    following.append((after, data + bytes([low])))
        level = following
    raise AssertionError("a state from which no text ends")
