"""Ids of short ASCII text, word by word: the words are merged by the tokenizer's own model, and
remembered. Where a text comes with each token that a sample takes, a tokenizer spends most of its
time on what surrounds the merging.

Only for byte-level BPE whose way to cut text into words is known, and only if a number of texts
come out as the tokenizer itself encodes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from unicodedata import normalize

from tokenizers import Tokenizer as Encoder

from sgc_runtime.tokenizer.pretokenizers import SCHEMES

_MOST_CHARS = 320
_MOST_WORDS = 50_000  # that are remembered
_BLANKS = r"\s+(?!\S)|\s+"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|" + _BLANKS
# Text ends in front of a digit.
_DIGITS = _GPT2.replace(r" ?\p{N}+", r"\p{N}").replace(r"(?!\S)", r"(?![^\s0-9])")
_SPLITS = {SCHEMES[name].split for name in ("llama3", "qwen2")}
# How byte-level BPE writes the bytes of ASCII text that have no glyph.
_GLYPHS = {byte: 0x100 + byte for byte in range(33)} | {0x7F: 0x121}
_PROBES = (
    "a", " ", "  ", "\n", "Hello world", ' "name": "', "x\n\n  y", "it's we'LL don't 'sab 'Sab '",
    "1", "12", "1234567", " 12 345", "a1b22", "  1", "  a", " \t a", "\r\n\r\n ", "a \n b", "\x1c",
    "a\x1f b\x00\x7f", "http://x.y/z?a=b&c", "f(x):\n\treturn {'a': [1, 2]}  # ok\n\n\n",
    "...!?)\n", " -- ", '": {"', "', '", '"}', "\x0b\x0c", " ' ", "'", "a'", "a'd1",
    "9'd", "  '", "_a_B ~^|`",
)  # fmt: skip


class Words:
    """Encodes ASCII text; safe for threads.

    Args:
        encoder: whose model merges.
        pattern: the words, which are all of a text.
        apart: texts in which another way is to be taken.
    """

    def __init__(self, encoder: Encoder, pattern: str, apart: Iterable[str]) -> None:
        self._find = re.compile(_of_ascii(pattern), re.ASCII).findall
        self._tokenize = encoder.model.tokenize
        texts = "|".join(map(re.escape, apart))
        self._apart = re.compile(texts).search if texts else None
        self._known: dict[str, tuple[int, ...]] = {}

    def encode(self, text: str) -> list[int] | None:
        """Ids of `text`; None: the tokenizer itself is to be asked."""
        if not text.isascii() or len(text) > _MOST_CHARS:
            return None
        if self._apart is not None and self._apart(text):
            return None
        known, ids = self._known, list[int]()
        for word in self._find(text):
            ids += known.get(word) or self._merged(word)
        return ids

    def _merged(self, word: str) -> tuple[int, ...]:
        if len(self._known) >= _MOST_WORDS:
            self._known.clear()
        merged = tuple(token.id for token in self._tokenize(word.translate(_GLYPHS)))
        self._known[word] = merged
        return merged


def words_of(encoder: Encoder, data: Mapping[str, Any]) -> Words | None:
    """How a tokenizer's text can be encoded by words; None: not at all.

    Args:
        data: its `tokenizer.json`.
    """
    pattern = _pattern(data)
    if pattern is None:
        return None
    added = {normalize("NFC", token["content"]) for token in data.get("added_tokens", ())}
    words = Words(encoder, pattern, [text for text in added if text.isascii()])
    for text in _PROBES:
        found = words.encode(text)
        if found is not None and found != encoder.encode(text, add_special_tokens=False).ids:
            return None
    return words


def _pattern(data: Mapping[str, Any]) -> str | None:
    """The words that text is cut into, where they are known."""
    model = data["model"]
    if model.get("type") != "BPE" or model.get("dropout"):
        return None
    if data.get("normalizer") not in (None, {"type": "NFC"}):
        return None
    cutting = data.get("pre_tokenizer") or {}
    steps = cutting.get("pretokenizers", [cutting])
    if not steps or steps[-1].get("type") != "ByteLevel" or steps[-1].get("add_prefix_space"):
        return None
    own = steps[-1].get("use_regex", True)
    kinds = [step.get("type") for step in steps[:-1]]
    if not kinds:
        return _GPT2 if own else None
    if kinds == ["Digits"]:
        return _DIGITS if own and steps[0].get("individual_digits") else None
    return None if own or kinds != ["Split"] else _split_pattern(steps[0])


def _split_pattern(step: Mapping[str, Any]) -> str | None:
    pattern: str | None = step.get("pattern", {}).get("Regex")
    is_plain = step.get("behavior") == "Isolated" and not step.get("invert")
    return pattern if is_plain and pattern in _SPLITS else None


def _of_ascii(pattern: str) -> str:
    """A pattern that matches ASCII text as `pattern` does, without classes of Unicode."""
    inside = pattern.replace(r"\p{L}\p{N}]", "A-Za-z0-9]")
    return inside.replace(r"\p{L}", "[A-Za-z]").replace(r"\p{N}", "[0-9]")
