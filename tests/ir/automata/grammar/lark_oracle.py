"""Lark's Earley parser with the lexer `dynamic_complete`, asked whether it takes a text."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import lark

from sgc_ir.automata.automaton import Automaton


def recogniser(grammar: str) -> Callable[[str], bool]:
    """Whether lark's parser of `grammar` takes a text; raises what lark raises for the grammar."""
    parser = lark.Lark(
        grammar, parser="earley", lexer="dynamic_complete", ambiguity="forest", import_paths=[]
    )

    def takes(text: str) -> bool:
        try:
            parser.parse(text)
        except lark.exceptions.UnexpectedInput:
            return False
        except RuntimeError as error:
            # Lark found the start rule to be complete in two ways, which it calls a bug of its own.
            if "multiple start symbol items" not in str(error):
                raise
        return True

    return takes


def sampled(automaton: Automaton, rng: random.Random, count: int, longest: int) -> Iterator[str]:
    """Texts from random walks that end in an accepting state within `longest` bytes."""
    for _ in range(count):
        state, data = automaton.start, bytearray()
        while len(data) <= longest:
            ways = automaton.ways(state)
            if automaton.is_accepting(state) and (not ways or rng.random() < 0.25):
                yield data.decode()
                break
            low, high, following = rng.choice(ways)
            data.append(rng.randint(low, high))
            state = following


def mutated(text: str, rng: random.Random, letters: str) -> str:
    """`text` with one character removed, changed or added."""
    place = rng.randrange(len(text) + 1)
    kept = text[place + rng.randrange(2) :]
    return text[:place] + rng.choice([*letters, ""]) + kept
