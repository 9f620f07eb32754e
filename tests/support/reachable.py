"""Whether a text can be spelled under masks, token by token, along several tokenizations."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from support.json_style import SEPARATORS, written
from support.masks import BYTES, CONTROLS

from sgc_ir.automata.automaton import DEAD, Automaton
from sgc_runtime.constraints.token_masks import TokenMasks
from sgc_runtime.constraints.token_trie import TokenTrie
from sgc_runtime.constraints.vocabulary import Vocabulary
from sgc_runtime.tokenizer.tokenizer import Tokenizer


class Speller:
    """A vocabulary, and ways to cut a text into its tokens.

    Args:
        tokenizer: gives the canonical ids; None: a vocabulary of 4 control tokens and 256 bytes.
        random_splits: how many random cuts of each text are tried.
    """

    def __init__(self, tokenizer: Tokenizer | None, random_splits: int = 2) -> None:
        self._tokenizer = tokenizer
        trie = TokenTrie([*CONTROLS, *BYTES]) if tokenizer is None else TokenTrie.of(tokenizer)
        self.vocabulary = Vocabulary(trie)
        self.random_splits = random_splits
        self._ids: dict[bytes, int] = {}
        for token, data in enumerate(trie.tokens):
            if data:
                self._ids.setdefault(data, token)
        self._longest = max(map(len, self._ids))

    def token_bytes(self, token: int) -> bytes:
        return self.vocabulary.trie.tokens[token]

    def splits(self, text: str, rng: random.Random) -> Iterator[list[int]]:
        """Canonical, byte by byte, and cut at random."""
        data = text.encode()
        if all(bytes([byte]) in self._ids for byte in set(data)):
            yield [self._ids[bytes([byte])] for byte in data]
        if self._tokenizer is None:
            return
        yield self._tokenizer.encode(text, start=False)
        for _ in range(self.random_splits):
            yield list(self._cut(data, rng))

    def _cut(self, data: bytes, rng: random.Random) -> Iterator[int]:
        at = 0
        while at < len(data):
            ends = range(at + 1, min(len(data), at + self._longest) + 1)
            found = [end for end in ends if data[at:end] in self._ids]
            end = rng.choice(found)
            yield self._ids[data[at:end]]
            at = end

    def reached(self, automaton: Automaton, text: str, rng: random.Random) -> set[bool]:
        """For each tokenization: whether every token is in its mask and the text may end there."""
        masks = TokenMasks(automaton, self.vocabulary)
        return {self._spelled(masks, text, ids) for ids in self.splits(text, rng)}

    def _spelled(self, masks: TokenMasks, text: str, ids: list[int]) -> bool:
        data = b"".join(map(self.token_bytes, ids))
        assert data == text.encode(), "a tokenization of another text"
        automaton = masks.automaton
        state = automaton.start
        for token in ids:
            after = automaton.walk(state, self.token_bytes(token))
            allowed = bool(masks.mask(state)[token >> 5] >> (token & 31) & 1)
            assert allowed == (after != DEAD), (text, self.token_bytes(token))
            if not allowed:
                return False
            state = after
        return bool(automaton.is_accepting(state))


_LOOKS = 20_000  # at members, before another order of an object is given up


def in_legal_order(automaton: Automaton, value: Any, style: str) -> str:
    """`value` as JSON with the members of its objects in an order that the automaton takes; as
    `json.dumps` has it where none is found."""
    order = _Order(automaton, *SEPARATORS[style])
    for state, text in order.values(automaton.start, value):
        if automaton.is_accepting(state):
            return text
    return written(value, style)


_Found = Iterator[tuple[int, str]]
_Seen = set[tuple[int, frozenset[str]]]


class _Order:
    """The states behind a value, with the members of its objects in any order."""

    def __init__(self, automaton: Automaton, comma: str, colon: str) -> None:
        self._automaton, self._comma, self._colon = automaton, comma, colon
        self._looks = 0

    def values(self, state: int, value: Any) -> _Found:
        if isinstance(value, dict) and value:
            for inside, text in self._literal(state, "{"):
                for behind, rest in self._members(inside, value, "", set()):
                    yield behind, text + rest
        elif isinstance(value, list) and value:
            for inside, text in self._literal(state, "["):
                for behind, rest in self._items(inside, value, ""):
                    yield behind, text + rest
        else:
            yield from self._literal(state, written(value))

    def _literal(self, state: int, text: str) -> _Found:
        state = self._automaton.walk(state, text.encode())
        if state != DEAD:
            yield state, text

    def _members(self, state: int, left: dict[str, Any], before: str, seen: _Seen) -> _Found:
        place = (state, frozenset(left))
        self._looks += 1
        if place in seen or self._looks > _LOOKS:
            return  # what follows it has been tried
        seen.add(place)
        if not left:
            yield from self._literal(state, "}")
        for name, value in left.items():
            start = f"{before}{written(name)}{self._colon}"
            others = {other: left[other] for other in left if other != name}
            for inside, text in self._literal(state, start):
                for behind, middle in self.values(inside, value):
                    for end, rest in self._members(behind, others, self._comma, seen):
                        yield end, text + middle + rest

    def _items(self, state: int, left: list[Any], before: str) -> _Found:
        if not left:
            yield from self._literal(state, "]")
            return
        for inside, text in self._literal(state, before):
            for behind, middle in self.values(inside, left[0]):
                for end, rest in self._items(behind, left[1:], self._comma):
                    yield end, text + middle + rest
