"""Reading schema automata in tests: instances in any order of members, and random texts."""

from __future__ import annotations

import random
from heapq import heappop, heappush
from typing import Any

from support.json_style import written

from sgc_ir.automata.automaton import DEAD, Automaton


def accepts_in_some_order(automaton: Automaton, value: Any) -> bool:
    """Whether `value` is accepted with the members of its objects in some order (style spaced)."""
    return any(map(automaton.is_accepting, _behind(automaton, {automaton.start}, value)))


def _step(automaton: Automaton, states: set[int], text: str) -> set[int]:
    data = text.encode("utf-8")
    return {automaton.walk(state, data) for state in states} - {DEAD}


def _behind(automaton: Automaton, states: set[int], value: Any) -> set[int]:
    """The states behind `value` in all its orders."""
    if not states:
        return states
    if isinstance(value, dict):
        return _behind_members(automaton, _step(automaton, states, "{"), value)
    if not isinstance(value, list):
        return _step(automaton, states, written(value))
    states = _step(automaton, states, "[")
    for index, item in enumerate(value):
        states = _step(automaton, states, ", " if index else "")
        states = _behind(automaton, states, item)
    return _step(automaton, states, "]")


def _behind_members(automaton: Automaton, states: set[int], value: dict[str, Any]) -> set[int]:
    level = {frozenset[str](): states}  # names that are written, and the states behind them
    for count in range(len(value)):
        comma = ", " if count else ""
        following: dict[frozenset[str], set[int]] = {}
        for names, reached in level.items():
            for name in value.keys() - names:
                inside = _step(automaton, reached, f"{comma}{written(name)}: ")
                behind = _behind(automaton, inside, value[name])
                if behind:
                    following.setdefault(names | {name}, set()).update(behind)
        level = following
    return _step(automaton, set().union(*level.values()), "}")


def random_text(automaton: Automaton, rng: random.Random, length: int = 120) -> str:
    """A random legal text: free for about `length` bytes, then a short way to an end."""
    data, state = bytearray(), automaton.start
    size = rng.randrange(length)
    while True:
        if automaton.is_accepting(state) and (len(data) >= size or rng.random() < 0.3):
            return data.decode("utf-8")
        if len(data) >= size:
            return (bytes(data) + _some_end(automaton, state, rng)).decode("utf-8")
        ways = automaton.ways(state)
        if not ways:
            return data.decode("utf-8")
        low, high, state = rng.choice(ways)
        data.append(rng.randint(low, high))


def _some_end(automaton: Automaton, state: int, rng: random.Random) -> bytes:
    """Bytes that end the text soon."""
    data = bytearray()
    for _ in range(100):
        for byte in _end_of_shape(automaton, state):
            following = automaton.step(state, byte)
            if following == DEAD:
                break
            data.append(byte)
            state = following
        if automaton.is_accepting(state):
            return bytes(data)
        low, high, state = rng.choice(automaton.ways(state))  # a remembered text is excluded
        data.append(rng.randint(low, high))
    raise AssertionError("a state from which no text ends")


def _end_of_shape(automaton: Automaton, start: int) -> bytes:
    """The same where no text is remembered: with the fewest brackets opened, else depth first."""
    seen, count, heap = set[int](), 0, [(0, 0, start, b"")]
    while heap:
        opened, _, state, data = heappop(heap)
        recall = automaton.recalls(state)
        state = state if recall is None else recall.shape
        if automaton.is_accepting(state):
            return data
        if state not in seen:
            seen.add(state)  # not before: a worse way to it may have been put aside
            for low, _, after in sorted(automaton.ways(state), key=_lateness, reverse=True):
                count -= 1  # the last one first
                heappush(heap, (opened + (low in b"[{"), count, after, data + bytes([low])))
    raise AssertionError("a shape from which no text ends")


def _lateness(way: tuple[int, int, int]) -> int:
    late = _LATE.find(way[0])
    return late if late >= 0 else len(_EARLY)


_EARLY = b'}]"0123456789ntf'
_LATE = _EARLY + b" ,[{\\"
