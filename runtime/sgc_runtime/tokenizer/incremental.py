"""Turns the bytes of tokens into text as they come, never cutting a character."""

from __future__ import annotations

import codecs

_DECODER = codecs.getincrementaldecoder("utf-8")
_WHOLE = (b"", 0)  # the decoder's state where nothing is pending


class Detokenizer:
    """Text of a growing token sequence.

    The concatenation of all pieces equals the whole byte sequence decoded as UTF-8 with invalid
    bytes replaced by U+FFFD, except that a character still incomplete at the end stays pending.

    Args:
        drop_blank: leave out one blank at the very beginning; right where the tokenizer itself
            put it there (see `Tokenizer.adds_blank`).
    """

    def __init__(self, drop_blank: bool = False) -> None:
        self._decoder = _DECODER(errors="replace")
        self._is_whole = True  # nothing is pending
        self._may_drop = drop_blank
        self.dropped_bytes = 0  # 1 once a blank at the beginning was left out

    @property
    def pending(self) -> bytes:
        """Bytes of a character that is not complete yet."""
        return b"" if self._is_whole else self._decoder.getstate()[0]

    @property
    def is_cut(self) -> bool:
        """Whether something is pending."""
        return not self._is_whole

    def mark(self) -> tuple[tuple[bytes, int], bool, int]:
        """Where it is, for `return_to`."""
        state = _WHOLE if self._is_whole else self._decoder.getstate()
        return state, self._may_drop, self.dropped_bytes

    def return_to(self, mark: tuple[tuple[bytes, int], bool, int]) -> None:
        """Be where it was."""
        state, self._may_drop, self.dropped_bytes = mark
        self._decoder.setstate(state)
        self._is_whole = not state[0]

    def push(self, data: bytes) -> str:
        """The text that `data`, the bytes of the next token, completes."""
        if self._may_drop and data:
            self._may_drop = False
            if data[0] == 0x20:
                data = data[1:]
                self.dropped_bytes = 1
        if self._is_whole and data.isascii():
            return data.decode()
        text = self._decoder.decode(data)
        self._is_whole = not self._decoder.getstate()[0]
        return text

    def finish(self) -> str:
        """What is pending, as replacement characters; nothing may be pushed afterwards."""
        self._is_whole = True
        return self._decoder.decode(b"", final=True)


def decode_bytes(data: bytes, drop_blank: bool = False) -> str:
    """The whole text of `data`; incomplete and invalid bytes become U+FFFD."""
    if drop_blank and data.startswith(b" "):
        data = data[1:]
    return data.decode("utf-8", errors="replace")


def char_offset_in_bytes(data: bytes, num_chars: int) -> int:
    """Where in `data` the first `num_chars` characters of its replaced decoding end.

    Raises:
        IndexError: `data` has fewer characters.
    """
    rest = num_chars
    at = 0
    while True:
        valid, num_invalid = _valid_part(data[at:])
        if rest <= len(valid):
            return at + len(valid[:rest].encode())
        rest -= len(valid)
        at += len(valid.encode()) + num_invalid
        if num_invalid == 0:
            raise IndexError(f"{num_chars} characters asked of bytes that hold {num_chars - rest}")
        rest -= 1  # the invalid bytes are one U+FFFD


def _valid_part(data: bytes) -> tuple[str, int]:
    """Text up to the first invalid bytes, and their number."""
    try:
        return data.decode(), 0
    except UnicodeDecodeError as error:
        return data[: error.start].decode(), error.end - error.start
