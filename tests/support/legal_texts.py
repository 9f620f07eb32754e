"""Texts that keep to a constraint, by walking its automaton."""

from __future__ import annotations

import json
import random
from functools import lru_cache

from sgc_ir.automata.automaton import Automaton
from sgc_ir.automata.compile import constraint_automaton
from sgc_ir.params import SamplingParams


@lru_cache(maxsize=64)
def _automaton(regex: str | None, schema: str | None, grammar: str | None) -> Automaton:
    return constraint_automaton(
        SamplingParams(
            regex=regex, json_schema=None if schema is None else json.loads(schema), grammar=grammar
        )
    )


def legal_text(params: SamplingParams, seed: int, free: int = 40) -> str:
    """A text that the regex, schema or grammar of `params` allows: a random one for about `free`
    bytes, letters and digits before others, then the shortest way to an end."""
    schema = None if params.json_schema is None else json.dumps(params.json_schema)
    automaton = _automaton(params.regex, schema, params.grammar)
    rng = random.Random(seed)
    state, data = automaton.start, bytearray()
    while not (automaton.is_accepting(state) and len(data) >= rng.randrange(free)):
        ways = automaton.ways(state)
        if not ways:
            break
        if len(data) >= free and len(automaton.forced(state)[0]) == 0:
            return (bytes(data) + _shortest_end(automaton, state)).decode()
        plain = [way for way in ways if way[0] <= ord("z") and way[1] >= ord("a")]
        low, high, state = rng.choice(plain or ways)
        if plain:
            low, high = max(low, ord("a")), min(high, ord("z"))
        data.append(rng.randint(low, high))
    return data.decode()


def _shortest_end(automaton: Automaton, state: int) -> bytes:
    found = {state: b""}
    waiting = [state]
    for here in waiting:
        if automaton.is_accepting(here):
            return found[here]
        for low, _, following in automaton.ways(here):
            if following not in found:
                found[following] = found[here] + bytes([low])
                waiting.append(following)
    raise AssertionError("every state of an automaton leads to an end")
