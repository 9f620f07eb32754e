"""Masks inside names where any other name may come: exact, token by token."""

from __future__ import annotations

import random
from typing import Any

import pytest
from support.masks import allowed, vocabularies

from sgc_ir.automata.automaton import DEAD, Automaton
from sgc_ir.automata.schema.compile import schema_automaton
from sgc_runtime.constraints.token_masks import TokenMasks
from sgc_runtime.constraints.token_trie import TokenTrie

NAMES = ["a", "ab", "abc", "b", "né", 'q"t', "no\\de", "日本", "b1", "ab c"]
TEXTS = [
    '{"a": 1, "ab": "x", "abc": null, "b": {"a": true}, "zz": [1, 2]}',
    '{"né": "né", "q\\"t": -1.5e3, "no\\\\de": {}, "日本": "日本語", "b1": 0}',
    '{"ab c": {"ab": 1, "abd": [{"a": ""}]}, "b12": "ab", "q": false}',
]


def tokens() -> list[bytes]:
    """All bytes, all short parts of the texts, and two tokens of the same bytes."""
    parts = {bytes([byte]) for byte in range(256)}
    for text in TEXTS:
        data = text.encode()
        parts |= {data[i : i + n] for n in range(2, 8) for i in range(len(data) - n + 1)}
    return [b"", *sorted(parts), b'ab"', b'"ab": ']


def schemas() -> list[Any]:
    """Open objects with declared names, some required, one inside the other, and unions."""
    rng = random.Random(5)
    kinds = [{"type": "integer"}, {"type": ["string", "null"]}, True, {"enum": ["ab", "abc", 1]}]
    found: list[Any] = []
    for size in (1, 2, 4, 6, 10):
        names = rng.sample(NAMES, size)
        members = {name: rng.choice(kinds) for name in names}
        found.append({"type": "object", "properties": members})
        found.append({"properties": {"b": found[-1], **members}, "required": names[:1]})
    closed = {"type": "object", "properties": {"ab": True}, "additionalProperties": False}
    found.append({"anyOf": [found[4], found[2], closed]})
    found.append({"type": "object", "additionalProperties": {"not": {"enum": NAMES[:4]}}})
    found.append({"properties": {"ab": {"$ref": "#"}, "abc": True}, "type": "object"})
    return found


def check(automaton: Automaton, state: int, masks: list[TokenMasks], all_: list[bytes]) -> None:
    led = {i for i, data in enumerate(all_) if data and automaton.walk(state, data) != DEAD}
    for one in masks:
        assert allowed(one.mask(state)) == led


@pytest.mark.parametrize("number", range(len(schemas())))
def test_masks_are_what_each_token_leads_to(number: int) -> None:
    all_ = tokens()
    automaton = schema_automaton(schemas()[number])
    masks = [TokenMasks(automaton, vocabulary) for vocabulary in vocabularies(all_)]
    rng, liked, seen = random.Random(number), set("".join([*NAMES, *TEXTS]).encode()), set()
    for _ in range(25):
        state = automaton.start
        for _ in range(30):
            if state not in seen:
                seen.add(state)
                check(automaton, state, masks, all_)
            legal = [byte for byte in range(256) if automaton.step(state, byte) != DEAD]
            if not legal:
                break
            state = automaton.step(state, rng.choice([b for b in legal if b in liked] or legal))
    assert len(seen) > 20


@pytest.mark.parametrize("number", range(len(schemas())))
def test_rows_that_are_like_others_are_those_of_the_derivatives(number: int) -> None:
    automaton = schema_automaton(schemas()[number])
    queue, seen = [automaton.start], {automaton.start}
    while queue and len(seen) < 400:
        state = queue.pop(0)
        row = [DEAD] * 256
        for low, high, following in automaton.ways(state):
            row[low : high + 1] = [following] * (high - low + 1)
        assert automaton.row(state).tolist() == row
        for following in set(row) - seen - {DEAD}:
            seen.add(following)
            queue.append(following)


def test_a_node_of_the_trie_is_found_by_its_bytes() -> None:
    all_ = tokens()
    trie = TokenTrie(all_)
    table = trie.table
    found = {}
    path = b""
    for node, edge in enumerate(table.edge.tolist()):
        path = path[: edge >> 8] + bytes([edge & 255])
        found[path] = node
    for beginning, node in found.items():
        assert trie.node(beginning) == node
    assert trie.node(b"never there") == -1
