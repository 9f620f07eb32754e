"""Tokens of the scripted backend: words with the blanks before them, or a tokenizer's."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Protocol

_WORD = re.compile(r"\s*\S+|\s+")


class Token(NamedTuple):
    text: str
    id: int | None  # None: words have no ids


class Tokens(Protocol):
    """Splits text into tokens; their texts concatenate to it."""

    def split(self, text: str) -> list[Token]: ...

    def count(self, text: str) -> int: ...

    def count_on(self, text: str, at: int, known: int) -> int:
        """Tokens of `text`, whose first `at` characters count `known`."""
        ...


class WordTokens:
    """One token a word, with the blanks before it. Blanks at the end are split off too, but only
    words count."""

    def split(self, text: str) -> list[Token]:
        return [Token(word, None) for word in _WORD.findall(text)]

    def count(self, text: str) -> int:
        return len(text.split())

    def count_on(self, text: str, at: int, known: int) -> int:
        if at >= len(text):
            return known
        goes_on = at > 0 and not text[at - 1].isspace() and not text[at].isspace()
        return known + len(text[at:].split()) - goes_on


class TokenizerTokens:
    """Tokens of anything with `encode(text) -> ids` and `decode(ids) -> text`; tokenizers of
    transformers are asked without special tokens."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._options = (
            {"add_special_tokens": False} if hasattr(tokenizer, "convert_ids_to_tokens") else {}
        )

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, **self._options))

    def split(self, text: str) -> list[Token]:
        ids = self._encode(text)
        tokens: list[Token] = []
        done = 0
        for i, token_id in enumerate(ids):
            so_far = self._tokenizer.decode(ids[: i + 1])
            end = len(text) if i + 1 == len(ids) else _agreed(so_far, text)
            tokens.append(Token(text[done : max(done, end)], token_id))
            done = max(done, end)
        return tokens

    def count(self, text: str) -> int:
        return len(self._encode(text))

    def count_on(self, text: str, at: int, known: int) -> int:
        return self.count(text)  # what follows can change how the end of a text is cut


def _agreed(decoded: str, text: str) -> int:
    """Characters of `decoded` that are final: a cut character decodes to U+FFFD at the end."""
    end = len(decoded)
    while end and not text.startswith(decoded[:end]):
        end -= 1
    return end
