"""Whether a text can be spelled under masks, token by token, along several tokenizations."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from support.masks import BYTES, CONTROLS

from sgc_ir.automata.automaton import DEAD, Automaton
from sgc_runtime.constraints.token_masks import TokenMasks
from sgc_runtime.constraints.token_trie import TokenTrie
from sgc_runtime.constraints.vocabulary import Vocabulary
from sgc_runtime.tokenizer.tokenizer import Tokenizer

_SEPARATORS = {"spaced": (", ", ": "), "compact": (",", ":")}


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


def in_legal_order(automaton: Automaton, value: Any, style: str) -> str:
    """`value` as JSON with the members of its objects in an order that the automaton takes; as
    `json.dumps` has it where there is none."""
    for state, text in _values(automaton, automaton.start, value, style):
        if automaton.is_accepting(state):
            return text
    return dumped(value, style)


def dumped(value: Any, style: str) -> str:
    """`value` as `json.dumps` writes it in a style."""
    if style == "pretty":
        return json.dumps(value, ensure_ascii=False, indent=2)
    return json.dumps(value, ensure_ascii=False, separators=_SEPARATORS[style])


_Found = Iterator[tuple[int, str]]


def _literal(automaton: Automaton, state: int, text: str) -> _Found:
    state = automaton.walk(state, text.encode())
    if state != DEAD:
        yield state, text


def _values(automaton: Automaton, state: int, value: Any, style: str) -> _Found:
    if isinstance(value, dict) and value:
        for inside, text in _literal(automaton, state, "{"):
            for behind, rest in _members(automaton, inside, value, style, ""):
                yield behind, text + rest
    elif isinstance(value, list) and value:
        for inside, text in _literal(automaton, state, "["):
            for behind, rest in _items(automaton, inside, value, style, ""):
                yield behind, text + rest
    else:
        yield from _literal(automaton, state, dumped(value, style))


def _members(
    automaton: Automaton, state: int, left: dict[str, Any], style: str, before: str
) -> _Found:
    comma, colon = _SEPARATORS[style]
    if not left:
        yield from _literal(automaton, state, "}")
    for name, value in left.items():
        start = f"{before}{dumped(name, style)}{colon}"
        others = {other: left[other] for other in left if other != name}
        for inside, text in _literal(automaton, state, start):
            for behind, written in _values(automaton, inside, value, style):
                for end, rest in _members(automaton, behind, others, style, comma):
                    yield end, text + written + rest


def _items(automaton: Automaton, state: int, left: list[Any], style: str, before: str) -> _Found:
    if not left:
        yield from _literal(automaton, state, "]")
        return
    for inside, text in _literal(automaton, state, before):
        for behind, written in _values(automaton, inside, left[0], style):
            for end, rest in _items(automaton, behind, left[1:], style, _SEPARATORS[style][0]):
                yield end, text + written + rest
