"""How many tokens a gen or select makes, at least and at most."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from sgc_ir.automata.automaton import Automaton
from sgc_ir.automata.compile import constraint_automaton
from sgc_ir.errors import ConstraintError
from sgc_ir.params import SamplingParams

_STATES = 1024  # of an automaton whose texts are measured


class OutputBounds(NamedTuple):
    """Tokens of the text of one sample."""

    low: int
    high: int


def output_bounds(params: SamplingParams, count: Callable[[str], int]) -> OutputBounds:
    """Bounds of one sample, from choices, constraint, `min_tokens` and `max_tokens`.

    Args:
        count: tokens of a text.
    """
    if params.choices is not None:
        lengths = [count(choice) for choice in params.choices]
        return OutputBounds(min(lengths), max(lengths))
    low, high = min(params.min_tokens, params.max_tokens), params.max_tokens
    shortest, longest = _byte_lengths(params)
    stops = params.stop or params.stop_regex or params.stop_token_ids
    if shortest and not stops:
        low = max(low, min(1, high))
    if longest is not None and not params.ignore_eos:
        high = min(high, longest + 1)  # a token has a byte at least; one more may end the text
    return OutputBounds(min(low, high), high)


def _byte_lengths(params: SamplingParams) -> tuple[int, int | None]:
    if not params.binds_text:
        return 0, None
    key = {n: getattr(params, n) for n in ("regex", "json_schema", "json_style", "grammar")}
    if params.json_schema is None:
        return _measured(params.dtype, tuple(key.items()))
    return _measure(params)


@cache
def _measured(dtype: Any, values: tuple[tuple[str, Any], ...]) -> tuple[int, int | None]:
    given: Mapping[str, Any] = {k: v for k, v in values if v is not None}
    return _measure(SamplingParams(dtype=dtype, **given))


def _measure(params: SamplingParams) -> tuple[int, int | None]:
    try:
        return byte_lengths(constraint_automaton(params))
    except ConstraintError:
        return 0, None  # the call itself says what is wrong


def byte_lengths(automaton: Automaton) -> tuple[int, int | None]:
    """Bytes of the shortest and the longest legal text; (0, None) for a large automaton, None for
    texts without bound.

    Raises:
        ConstraintError: the automaton passes one of its limits.
    """
    following: dict[int, set[int]] = {}
    depth = {automaton.start: 0}
    waiting = [automaton.start]
    for state in waiting:
        following[state] = {after for _, _, after in automaton.ways(state)}
        for after in following[state] - depth.keys():
            depth[after] = depth[state] + 1
            waiting.append(after)
        if len(waiting) > _STATES:
            return 0, None
    shortest = min((depth[s] for s in depth if automaton.is_accepting(s)), default=0)
    return shortest, _longest_path(automaton, following, waiting)


def _longest_path(
    automaton: Automaton, following: Mapping[int, set[int]], states: list[int]
) -> int | None:
    """Edges of the longest path to an accepting state; None where there is a cycle."""
    before = dict.fromkeys(states, 0)
    for afters in following.values():
        for after in afters:
            before[after] += 1
    ready = [state for state in states if before[state] == 0]
    length = dict.fromkeys(states, 0)
    for state in ready:
        for after in following[state]:
            length[after] = max(length[after], length[state] + 1)
            before[after] -= 1
            if before[after] == 0:
                ready.append(after)
    if len(ready) < len(states):
        return None
    return max((length[s] for s in states if automaton.is_accepting(s)), default=0)
