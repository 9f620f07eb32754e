"""Placeholders that keep look-alikes of control tokens apart from real ones while a chat template
renders them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from sgc_runtime.executor.backend import Media, Piece, Text

_FIRST = 0xF0000  # plane 15: placeholders
_SHIFT = 0x100000 - _FIRST  # plane 16: partners of placeholders that a content itself holds


class Escaper:
    """Replaces each control token inside a content by one private-use character, and back.

    Contents that themselves hold such characters survive: those are written as two characters.

    Attributes:
        sentinel: marks the end of an open turn's content.
        media: stands for an image or video.
    """

    def __init__(self, control_tokens: Sequence[str]) -> None:
        tokens = sorted({t for t in control_tokens if t}, key=lambda t: (-len(t), t))
        self._marks = {token: chr(_FIRST + i) for i, token in enumerate(tokens)}
        self._tokens = {mark: token for token, mark in self._marks.items()}
        free = _FIRST + len(tokens)
        self._escape_char, self.sentinel, self.media = (chr(free + i) for i in range(3))
        reserved = f"[{chr(_FIRST)}-{chr(free + 2)}]"
        self._in_content = re.compile("|".join([re.escape(t) for t in tokens] + [reserved]))
        self._in_rendered = re.compile(
            f"{self._escape_char}(?s:.)|[{chr(_FIRST)}-{chr(free - 1)}{self.media}]"
            if tokens
            else f"{self._escape_char}(?s:.)|{self.media}"
        )

    def escape(self, content: str) -> str:
        """`content` without control tokens and placeholders."""
        return self._in_content.sub(self._escaped, content)

    def _escaped(self, match: re.Match[str]) -> str:
        found = match[0]
        mark = self._marks.get(found)
        return mark if mark is not None else self._escape_char + chr(ord(found) + _SHIFT)

    def pieces(self, rendered: str, media: Sequence[Media]) -> list[Piece]:
        """Rendered text as prompt pieces; contents' look-alikes become ordinary text, the k-th
        media placeholder becomes `media[k]`."""
        pieces: list[Piece] = []
        at, num_media = 0, 0
        for match in self._in_rendered.finditer(rendered):
            if match.start() > at:
                pieces.append(Text(rendered[at : match.start()], control=True))
            at = match.end()
            if match[0] == self.media:
                pieces.append(media[num_media])
                num_media += 1
            else:
                pieces.append(Text(self._original(match[0])))
        if at < len(rendered):
            pieces.append(Text(rendered[at:], control=True))
        return pieces

    def _original(self, found: str) -> str:
        if found[0] == self._escape_char:
            return chr(ord(found[1]) - _SHIFT)
        return self._tokens[found]


@lru_cache(maxsize=64)
def _escaper(control_tokens: tuple[str, ...]) -> Escaper:
    return Escaper(control_tokens)


def escaper_for(control_tokens: Sequence[str]) -> Escaper:
    """The escaper of a template's control tokens, made once."""
    return _escaper(tuple(control_tokens))
