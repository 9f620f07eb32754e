"""Whether ids are those that the tokenizer gives for their text, judged in a short window.

A window holds the last ids of a generated text, from a border that no token crosses on. Ids in
front of the border stay what they are, whatever text follows; so the ids of a window are the right
ones if and only if its text encodes to them. Where no border is near, the window begins between
any two characters, and it is believed only where a beginning one or two ids further on gives the
same ids.

Appended text may still change the ids of a window: canonical means canonical as far as it goes.
White space at the end is often cut in another way before a word than at the end of a text; ids
that fit either are let be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from sgc_runtime.constraints.memo import Memo
from sgc_runtime.tokenizer.borders import inside_character, is_border

MAX_WINDOW_IDS = 8
MAX_WINDOW_BYTES = 64

_OTHER_BEGINNINGS = 2  # numbers may be cut in threes from their beginning

_BEHIND_SPACE = (b"a", b"1", b"!")  # what white space may be cut apart before

_MEMO_ENTRIES = 50_000
_MEMO_BYTES = 256  # longer texts are not remembered


class Encoder(Protocol):
    """What of a tokenizer the rule needs; `tokenizer.Tokenizer` is one."""

    def encode(self, text: str, *, start: bool = True) -> list[int]: ...

    def token_bytes(self, token_id: int) -> bytes: ...


class Window(NamedTuple):
    """The end of a generated text.

    Attributes:
        ids: at most `MAX_WINDOW_IDS`.
        exact: it begins at a border, or where the generated text does.
        start: it stands where the tokenizer puts a blank in front of text (see
            `Tokenizer.at_start`); the blank is the first byte of `ids`, or of what follows.
    """

    ids: tuple[int, ...] = ()
    exact: bool = True
    start: bool = False


class _Texts(dict[int, bytes]):
    """The text of each token that was asked for: `texts[token]` calls no Python code then."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def __missing__(self, token: int) -> bytes:
        text = self[token] = self._encoder.token_bytes(token)
        return text


class Canonical:
    """The rule for one tokenizer; shared by all constraints over it.

    Attributes:
        token_bytes: the text of a token.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.token_bytes: Callable[[int], bytes] = _Texts(encoder).__getitem__
        self._encoder = encoder
        self._encoded: Memo[tuple[bytes, bool], tuple[int, ...] | None] = Memo(_MEMO_ENTRIES)
        self._judged: Memo[tuple[Window, int], bool | None] = Memo(_MEMO_ENTRIES)

    def bytes_of(self, ids: Iterable[int]) -> bytes:
        """The text of ids."""
        return b"".join(map(self.token_bytes, ids))

    def encode(self, data: bytes, start: bool = False) -> tuple[int, ...] | None:
        """The ids of text behind other text (`start`: see `Window`).

        Returns:
            Ids whose bytes are `data`; None where there are none: `data` is cut inside a
            character, or the tokenizer changes the text.
        """
        key = (data, start)
        if len(data) > _MEMO_BYTES:
            return self._encode(key)
        return self._encoded.find(key, self._encode)

    def encode_behind(self, window: Window, data: bytes) -> tuple[int, ...] | None:
        """The ids of the text of `window` and of `data`, which follows it; None where `encode`
        gives none, or where the window begins at no border and it shows."""
        found = self.encode(self.bytes_of(window.ids) + data, window.start)
        if window.exact or found is None:
            return found
        if found[:1] != window.ids[:1]:
            return None
        for skipped in range(1, min(_OTHER_BEGINNINGS, len(window.ids) - 1) + 1):
            before, ids = window.ids[:skipped], window.ids[skipped:]
            other = self.encode(self.bytes_of(ids) + data)
            if other is not None and (*before, *other) != found:
                return None
        return found

    def is_canonical(self, window: Window, token: int) -> bool | None:
        """Whether the text of `window` and `token` encodes to these ids; None where that cannot
        be said."""
        ids = window.ids
        if ids and is_border(self.token_bytes(ids[-1]), self.token_bytes(token)):
            window = _FRESH
        return self._judged.find((window, token), self._judge)

    def right_ids(self, window: Window) -> tuple[int, ...] | None:
        """The ids that the text of `window` encodes to; None where its own are right or may be."""
        found = self.encode_behind(window, b"")
        return None if found is None or self._fits(window, b"", window.ids, found) else found

    def _judge(self, key: tuple[Window, int]) -> bool | None:
        window, token = key
        data, ids = self.token_bytes(token), (*window.ids, token)
        found = self.encode_behind(window, data)
        if found is None or found == ids:
            return None if found is None else True
        return None if self._fits(window, data, ids, found) else False

    def _fits(
        self, window: Window, data: bytes, ids: tuple[int, ...], found: tuple[int, ...]
    ) -> bool:
        """Whether `ids` may be those of the text of `window` and `data`, which are `found` where
        the text ends with them."""
        if found == ids:
            return True
        if not (self.bytes_of(window.ids) + data)[-1:].isspace():
            return False
        others = (self.encode_behind(window, data + further) for further in _BEHIND_SPACE)
        return any(other is not None and other[: len(ids)] == ids for other in others)

    def _encode(self, key: tuple[bytes, bool]) -> tuple[int, ...] | None:
        data, start = key
        if start and not data.startswith(b" "):
            return None
        try:
            text = data[start:].decode()
        except UnicodeDecodeError:
            return None
        ids = self._encoder.encode(text, start=start) if text else []
        return tuple(ids) if self.bytes_of(ids) == data else None


_FRESH = Window()


def grown(window: Window, token: int, canonical: Canonical) -> Window | None:
    """The window behind `token`, which was not found to be wrong behind `window`; None unless that
    says the same of all its ids (see `right_ids`), or where it may begin further on."""
    ids, data = window.ids, canonical.token_bytes(token)
    if not ids:  # exact: at the beginning of the text
        begins = window.exact and not inside_character(data)
        return Window((token,), True, window.start) if begins else None
    if is_border(canonical.token_bytes(ids[-1]), data):
        return Window((token,))
    # One that begins at no border is believed where all other beginnings are tried with both.
    if len(ids) == MAX_WINDOW_IDS or not (window.exact or len(ids) > _OTHER_BEGINNINGS):
        return None
    if sum(map(len, map(canonical.token_bytes, ids)), len(data)) > MAX_WINDOW_BYTES:
        return None
    return Window((*ids, token), window.exact, window.start)


def window_start(ids: list[int], start: int, canonical: Canonical, end: int | None = None) -> int:
    """Where the window of the first `end` ids (default: of all) begins, if that of all of them but
    the last began at `start`.

    It is always the first byte of a character; behind the last id if there is none.
    """
    token_bytes, end = canonical.token_bytes, len(ids) if end is None else end
    last = token_bytes(ids[end - 1])
    if end > 1 and is_border(token_bytes(ids[end - 2]), last):
        return end - 1
    if end - start > MAX_WINDOW_IDS:
        start = end - MAX_WINDOW_IDS
    elif end - start == 1 and not inside_character(last):
        return start
    size = len(canonical.bytes_of(ids[start:end]))
    while size > MAX_WINDOW_BYTES and start < end - 1:
        size -= len(token_bytes(ids[start]))
        start += 1
    while start < end and inside_character(token_bytes(ids[start])):
        start += 1
    return start
