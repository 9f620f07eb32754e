"""Follows the tokens of one gen: its text, the stop that ends it, and which tokens stay."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sgc_runtime.tokenizer import stop_finder
from sgc_runtime.tokenizer.incremental import Detokenizer, char_offset_in_bytes
from sgc_runtime.tokenizer.stop_finder import StopFinder


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


class Mark(NamedTuple):
    """See `StopSearch.mark`."""

    finder: stop_finder.Mark
    detokenizer: tuple[tuple[bytes, int], bool, int]
    num_tokens: int


class StopSearch:
    """Watches one gen: takes its tokens, gives its text, tells when a stop is complete.

    Args:
        stop, stop_regex, min_tokens: see `StopFinder`; only the gen's own text is searched.
        drop_blank: see `Detokenizer`.

    Attributes:
        num_given_chars: characters of the text that were given for streaming.
    """

    def __init__(
        self,
        stop: Sequence[str] = (),
        stop_regex: Sequence[str] = (),
        min_tokens: int = 0,
        drop_blank: bool = False,
    ) -> None:
        self._finder = StopFinder(stop, stop_regex, min_tokens)
        self._detokenizer = Detokenizer(drop_blank)
        self._drop_blank = drop_blank
        self.num_given_chars = 0
        self._data = bytearray()
        self._token_ends: list[int] = []  # byte position behind each token

    @property
    def text(self) -> str:
        """Text of all complete characters so far, held-back text included."""
        return self._finder.text

    @property
    def pending(self) -> bytes:
        """Bytes of a character that is not complete yet; not in `text`."""
        return self._detokenizer.pending

    @property
    def has_stops(self) -> bool:
        """Whether there is anything to search for; else any text is safe at once."""
        return self._finder.has_stops

    def push_all(self, tokens: Sequence[bytes]) -> None:
        """`push` of each, where there are no stops."""
        end = len(self._data)
        for data in tokens:
            end += len(data)
            self._token_ends.append(end)
        whole = b"".join(tokens)
        self._data += whole
        self._finder.push(self._detokenizer.push(whole))

    def take_back(self, count: int) -> None:
        """Take the last tokens back, but for `num_given_chars`, where there are no stops."""
        del self._token_ends[len(self._token_ends) - count :]
        end = self._token_ends[-1] if self._token_ends else 0
        taken = self._data[end:]
        del self._data[end:]
        if end > 0 and self._data[-1] < 0x80 and taken.isascii():  # a character for each byte
            self._finder.cut(len(taken))
            return
        self._detokenizer = Detokenizer(self._drop_blank)
        self._finder = StopFinder()
        self._finder.push(self._detokenizer.push(bytes(self._data)))

    def mark(self) -> Mark:
        """Where it is, for `return_to`; takes the same time however long the text is."""
        return Mark(self._finder.mark(), self._detokenizer.mark(), len(self._token_ends))

    def return_to(self, mark: Mark) -> None:
        """Be where it was, but for `num_given_chars`: tokens that came since are taken back."""
        self._finder.return_to(mark.finder)
        self._detokenizer.return_to(mark.detokenizer)
        del self._token_ends[mark.num_tokens :]
        del self._data[self._token_ends[-1] if self._token_ends else 0 :]

    def push(self, data: bytes) -> StopHit | None:
        """Take the next token's bytes (none for a control token); the stop that it completes.

        Nothing may be pushed after a stop.
        """
        self._data += data
        self._token_ends.append(len(self._data))
        piece = self._detokenizer.push(data)
        found = self._finder.push(piece, cut=self._detokenizer.is_cut)
        return None if found is None else self._hit(found.begin, found.matched)

    def take(self) -> str:
        """Text for streaming: what was not given yet and cannot become a stop."""
        return self._give(self._finder.num_safe_chars)

    def finish(self) -> str:
        """The gen ended without a stop: the held-back text (pending bytes stay out)."""
        return self._give(len(self.text))

    def _give(self, until: int) -> str:
        piece = self.text[self.num_given_chars : until]
        self.num_given_chars = max(self.num_given_chars, until)
        return piece

    def _hit(self, begin: int, matched: str) -> StopHit:
        cut = self._byte_position(begin)
        num_kept = bisect_right(self._token_ends, cut)
        while True:
            border = self._token_ends[num_kept - 1] if num_kept else 0
            residual = self._decode_whole(border, cut)
            if residual is not None:
                return StopHit(matched, self.text[:begin], num_kept, residual)
            num_kept -= 1  # the border lies inside a character

    def _byte_position(self, num_chars: int) -> int:
        dropped = self._detokenizer.dropped_bytes
        kept = self.text[:num_chars]
        if "\ufffd" not in kept:
            return dropped + len(kept.encode())
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
