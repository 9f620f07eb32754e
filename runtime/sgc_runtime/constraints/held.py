"""How much of a forced text is safe: no legal continuation changes its tokens.

The last bytes of a forced text may begin a token that also holds bytes which are not forced (` `
and ` yes`, `order` and `orderId`). They are held back, and the next mask covers them.

Source of the rule: the notes on fast-forward tokens of llguidance; here what may cross the end is
tried with the tokenizer itself instead of looking a fixed number of tokens back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from sgc_ir.automata.automaton import DEAD, Automaton
from sgc_runtime.constraints.canonical import Canonical
from sgc_runtime.constraints.memo import Memo
from sgc_runtime.sampling.healing import TokenPrefixes
from sgc_runtime.tokenizer.borders import is_border, whole_characters

_LOOK_BACK = 32  # bytes; longer tokens are runs of one character
_TRIES = 16  # tokens that could cross the end, tried with the tokenizer for each place
_WALKS = 128  # tokens whose bytes are tried with the automaton for each place
_LONGEST_CHARACTER = 4
ENCODE_PIECES = 16  # pieces of work (`Watch.tick`) that encoding a text is counted as


class _Tail(NamedTuple):
    """The end of a forced text, its first ids, and the automaton's state behind it."""

    data: bytes
    ids: tuple[int, ...]
    state: int


class SafeEnds:
    """Where forced texts of one automaton may be cut into tokens for good.

    Args:
        automaton: the constraint; its lock is held by whoever asks.
        canonical: the tokenizer's rule.
        prefixes: its tokens by their beginning.
    """

    def __init__(self, automaton: Automaton, canonical: Canonical, prefixes: TokenPrefixes) -> None:
        self._automaton = automaton
        self._canonical = canonical
        self._prefixes = prefixes
        self._ends: Memo[tuple[bytes, int], int] = Memo(4096)
        self._staying: Memo[_Tail, tuple[int, ...]] = Memo(4096)

    def tokens(self, data: bytes, ids: tuple[int, ...], state: int) -> tuple[int, ...]:
        """Those of `ids`, the tokens of `data`, that stay whatever follows.

        Args:
            data: whole characters.
            state: the automaton's behind `data`.
        """
        tail = _behind_last_border(data)
        first, place = self._place(
            data, tail, ids, state, self._ends.find((tail, state), self._end)
        )
        return ids[:first] + self._staying.find(place, self._confirmed)

    def known_tokens(self, data: bytes, ids: tuple[int, ...], state: int) -> tuple[int, ...] | None:
        """`tokens`, where nothing has to be found out for it; needs no lock."""
        tail = _behind_last_border(data)
        end = self._ends.known((tail, state), None)
        if end is None:
            return None
        first, place = self._place(data, tail, ids, state, end)
        staying = self._staying.known(place, None)
        return None if staying is None else ids[:first] + staying

    def _place(
        self, data: bytes, tail: bytes, ids: tuple[int, ...], state: int, safe: int
    ) -> tuple[int, _Tail]:
        """How many ids stand in front of the last border, and what is asked about those behind it.

        Args:
            tail: what is behind the last border in `data`; `safe`: bytes of it that no token
                crosses the end of.
        """
        border = len(data) - len(tail)
        limit = border + safe
        first = kept = end = 0
        for token in ids:
            first = kept if end == border else first
            end += len(self._canonical.token_bytes(token))
            if end > limit:
                break
            kept += 1
        # The ids in front of the border stay what they are, whatever follows it.
        if first:
            return first, _Tail(tail, ids[first:kept], state)
        return 0, _Tail(data, ids[:kept], state)

    def _end(self, key: tuple[bytes, int]) -> int:
        """The first place in `tail` where a token begins that goes beyond its end."""
        tail, state = key
        for at in range(max(0, len(tail) - _LOOK_BACK), len(tail)):
            if self._prefixes.has_longer(tail[at:]) and self._is_crossed(tail, at, state):
                return at
        return len(tail)

    def _is_crossed(self, tail: bytes, at: int, state: int) -> bool:
        tries = 0
        for token in self._crossing(tail[at:], state):
            tries += 1
            if token is None or tries > _TRIES:
                return True  # too many to try
            self._automaton.tick(ENCODE_PIECES)
            further = self._canonical.token_bytes(token)[len(tail) - at :]
            ids = self._canonical.encode(tail + further)
            if ids is None or at in _crossing_starts(self._canonical, ids, len(tail)):
                return True
        return False

    def _crossing(self, begin: bytes, state: int) -> Iterator[int | None]:
        """Tokens that begin with `begin` and go on as `state` does; None: and perhaps others."""
        walks = 0
        for low, high in self._automaton.first_bytes(state):
            for token in self._prefixes.going_on(begin, low, high).tolist():
                walks += 1
                if walks > _WALKS:
                    yield None
                further = self._canonical.token_bytes(token)[len(begin) :]
                if self._automaton.walk(state, further) != DEAD:
                    yield token

    def _confirmed(self, place: _Tail) -> tuple[int, ...]:
        """The first of its ids that some continuations leave as they are.

        A tokenizer may also look ahead (white space before a word), without a token that crosses.
        """
        data, ids, state = place
        if not ids:
            return ids
        for further in self._continuations(state):
            found = self._canonical.encode(data + further)
            if found is not None and found[: len(ids)] != ids:
                same = [a == b for a, b in zip(ids, found, strict=False)]
                ids = ids[: same.index(False) if False in same else len(same)]
        return ids

    def _continuations(self, state: int) -> Iterator[bytes]:
        """A few characters that may follow, one of each kind."""
        for first in _of_each_kind(self._automaton.first_bytes(state)):
            found, following = bytearray([first]), state
            while whole_characters(bytes(found)) < len(found) <= _LONGEST_CHARACTER:
                following = self._automaton.step(following, found[-1])
                found.append(self._automaton.first_bytes(following)[0][0])
            yield bytes(found)


def _kind(byte: int) -> str:
    """What tokenizers that look ahead take a character for, by its first byte."""
    char = chr(byte)
    if byte >= 0x80:
        return "not ASCII"
    if char.isspace():
        return "end of line" if char in "\r\n" else "blank"
    return "letter" if char.isalpha() else "digit" if char.isdigit() else "mark"


_KINDS = tuple(map(_kind, range(256)))


def _of_each_kind(ranges: Iterable[tuple[int, int]]) -> Collection[int]:
    """The first byte of each kind; a function of the bytes alone, however they are divided into
    `ranges`: that depends on what the automaton was asked before."""
    found: dict[str, int] = {}
    for low, high in ranges:
        for byte in range(low, high + 1):
            found.setdefault(_KINDS[byte], byte)
    return found.values()


def _behind_last_border(data: bytes) -> bytes:
    for at in range(len(data) - 1, 0, -1):
        if is_border(data[at - 1 : at], data[at : at + 1]):
            return data[at:]
    return data


def _crossing_starts(canonical: Canonical, ids: tuple[int, ...], place: int) -> list[int]:
    """Where the token of `ids` begins that holds bytes on both sides of `place`."""
    end = 0
    for token in ids:
        begin, end = end, end + len(canonical.token_bytes(token))
        if begin < place < end:
            return [begin]
    return []
