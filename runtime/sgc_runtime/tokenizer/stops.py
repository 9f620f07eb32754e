"""Finds stop strings and stop regexes in generated text, across token borders."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from sgc_runtime.tokenizer.incremental import Detokenizer, char_offset_in_bytes
from sgc_runtime.tokenizer.stop_regex import RegexStop


@dataclass(frozen=True, slots=True)
class StopHit:
    """A stop that ended a gen.

    Attributes:
        matched: the stop string, or the pattern of the stop regex.
        text: the gen's text in front of the stop.
        num_kept_tokens: how many of the pushed tokens stay as they are.
        residual: text between these tokens and the stop, the kept part of the token that the
            stop cut; it is to be encoded anew. Empty when the stop begins at a token border.
    """

    matched: str
    text: str
    num_kept_tokens: int
    residual: str


class StopSearch:
    """Watches one gen: takes its tokens, gives its text, tells when a stop is complete.

    The earliest begin wins: of overlapping stops the one that is complete first ends the gen,
    and of those that one token completes the one that begins first (then the one named first,
    strings before regexes). A stop that begins within the first `min_tokens` tokens is text.

    Args:
        stop: stop strings.
        stop_regex: stop patterns in Python's syntax, searched in the gen's own text.
        min_tokens: number of tokens in which no stop may begin.
        drop_blank: see `Detokenizer`.
    """

    def __init__(
        self,
        stop: Sequence[str] = (),
        stop_regex: Sequence[str] = (),
        min_tokens: int = 0,
        drop_blank: bool = False,
    ) -> None:
        self._strings = tuple(stop)
        self._regexes = tuple(RegexStop(pattern) for pattern in stop_regex)
        self._min_tokens = min_tokens
        self._detokenizer = Detokenizer(drop_blank)
        self._text = ""
        self._first_stop_char = 0  # no stop begins in front of it
        self._num_safe_chars = 0  # text in front of it cannot become a stop any more
        self._num_given_chars = 0
        self._data = bytearray()
        self._token_ends: list[int] = []  # byte position behind each token

    @property
    def text(self) -> str:
        """Text of all complete characters so far, held-back text included."""
        return self._text

    @property
    def pending(self) -> bytes:
        """Bytes of a character that is not complete yet; not in `text`."""
        return self._detokenizer.pending

    @property
    def num_tokens(self) -> int:
        return len(self._token_ends)

    def push(self, data: bytes) -> StopHit | None:
        """Take the next token's bytes (none for a control token); the stop that it completes.

        Nothing may be pushed after a stop.
        """
        self._data += data
        self._token_ends.append(len(self._data))
        num_old_chars = len(self._text)
        self._text += self._detokenizer.push(data)
        if self.num_tokens <= self._min_tokens:
            # A character that is not complete yet begins within these tokens, too.
            self._first_stop_char = len(self._text) + bool(self.pending)
            self._num_safe_chars = len(self._text)
            return None
        found = self._find(num_old_chars)
        if found is not None:
            begin, matched = found
            self._num_safe_chars = begin
            return self._hit(begin, matched)
        self._num_safe_chars = self._safe_until()
        return None

    def take(self) -> str:
        """Text for streaming: what was not given yet and cannot become a stop."""
        piece = self._text[self._num_given_chars : self._num_safe_chars]
        self._num_given_chars = max(self._num_given_chars, self._num_safe_chars)
        return piece

    def finish(self) -> str:
        """The gen ended without a stop: the held-back text (pending bytes stay out)."""
        self._num_safe_chars = len(self._text)
        return self.take()

    def _find(self, num_old_chars: int) -> tuple[int, str] | None:
        best: tuple[int, str] | None = None
        for stop in self._strings:
            first = max(self._first_stop_char, num_old_chars - len(stop) + 1)
            begin = self._text.find(stop, first)
            if begin >= 0 and (best is None or begin < best[0]):
                best = (begin, stop)
        for regex in self._regexes:
            found = regex.search(self._text, self._first_stop_char)
            if found is not None and (best is None or found < best[0]):
                best = (found, regex.pattern)
        return best

    def _safe_until(self) -> int:
        safe = len(self._text)
        for stop in self._strings:
            longest = min(len(stop) - 1, len(self._text) - self._first_stop_char)
            for length in range(longest, 0, -1):
                if self._text.endswith(stop[:length]):
                    safe = min(safe, len(self._text) - length)
                    break
        for regex in self._regexes:
            safe = min(safe, regex.first_possible(self._text, self._first_stop_char))
        # What was safe stays safe: it was given away.
        return max(safe, self._num_safe_chars)

    def _hit(self, begin: int, matched: str) -> StopHit:
        cut = self._byte_position(begin)
        num_kept = bisect_right(self._token_ends, cut)
        while True:
            border = self._token_ends[num_kept - 1] if num_kept else 0
            residual = self._decode_whole(border, cut)
            if residual is not None:
                return StopHit(matched, self._text[:begin], num_kept, residual)
            num_kept -= 1  # the border lies inside a character

    def _byte_position(self, num_chars: int) -> int:
        dropped = self._detokenizer.dropped_bytes
        kept = self._text[:num_chars]
        if "\ufffd" not in kept:
            return dropped + len(kept.encode()) if num_chars else 0
        return dropped + char_offset_in_bytes(bytes(self._data[dropped:]), num_chars)

    def _decode_whole(self, border: int, cut: int) -> str | None:
        """Text of the bytes between, or None if `border` is inside a character."""
        dropped = self._detokenizer.dropped_bytes
        start = max(border, dropped)
        if start >= cut:
            return ""
        head = bytes(self._data[dropped:start]).decode("utf-8", errors="replace")
        whole = bytes(self._data[dropped:cut]).decode("utf-8", errors="replace")
        tail = bytes(self._data[start:cut]).decode("utf-8", errors="replace")
        return tail if head + tail == whole else None
