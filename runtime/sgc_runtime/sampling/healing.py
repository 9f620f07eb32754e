"""Token healing: ids that end a prompt inside a token are taken back and generated anew.

`"http:"` and `"//x"` meet inside the token `://`. A model that reads the ids of `"http:"` has seen
that this text never goes on with `//`, so its answers are worse than for text that is encoded
whole. With `heal` the ids at the end of the literal text whose text begins a longer token are left
to the model: it may only choose ids that spell the same text, or go beyond it.

Source of the method: S. Lundberg 2023, "Prompt Boundaries and Token Healing".
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

MAX_HEALED_IDS = 4  # ids that are taken back at most

_Ints = npt.NDArray[np.int64]
_TokenBytes = Callable[[int], bytes]


class TokenPrefixes:
    """All ids below `num_ids` that have text, found by the bytes with which they begin.

    Attributes:
        token_bytes: bytes of an id's text, none for a control token.
    """

    def __init__(self, token_bytes: _TokenBytes, num_ids: int) -> None:
        self.token_bytes = token_bytes
        texts = [(token_bytes(i), i) for i in range(num_ids)]
        known = sorted(pair for pair in texts if pair[0])
        self._texts = [text for text, _ in known]
        self._ids = np.array([i for _, i in known], np.int64)

    def starting_with(self, prefix: bytes) -> _Ints:
        """Ids whose bytes begin with `prefix` (not empty), or are `prefix`."""
        return self._ids[slice(*self._range(prefix))]

    def has_longer(self, prefix: bytes) -> bool:
        """Whether some token goes on behind `prefix`."""
        first, last = self._range(prefix)
        return last > first and len(self._texts[last - 1]) > len(prefix)

    def going_on(self, prefix: bytes, low: int, high: int) -> _Ints:
        """Ids whose bytes begin with `prefix` and a byte from `low` to `high` behind it."""
        first = bisect_left(self._texts, prefix + bytes([low]))
        return self._ids[first : bisect_left(self._texts, _behind(prefix + bytes([high])))]

    def _range(self, prefix: bytes) -> tuple[int, int]:
        return bisect_left(self._texts, prefix), bisect_left(self._texts, _behind(prefix))


def _behind(prefix: bytes) -> bytes:
    """The smallest bytes that are larger than all that begin with `prefix`."""
    head = prefix.rstrip(b"\xff")
    return head[:-1] + bytes([head[-1] + 1]) if head else prefix + b"\xff" * 64


def num_healed(ids: Sequence[int], literal_bytes: int, prefixes: TokenPrefixes) -> int:
    """How many ids at the end of `ids` are to be generated anew.

    Args:
        literal_bytes: how many bytes at the end of their text may be; a control token ends them.
    """
    best, tail = 0, b""
    # The first id stays: something must be there to generate from.
    for count in range(1, min(MAX_HEALED_IDS, len(ids) - 1) + 1):
        data = prefixes.token_bytes(ids[-count])
        tail = data + tail
        if not data or len(tail) > literal_bytes:
            break
        if prefixes.has_longer(tail):
            best = count
    return best


class Healing:
    """What generated ids must spell first: the text of the ids that were taken back.

    A token may be the next of these ids themselves, or begin with all the text that is left; other
    ways of cutting the text into tokens are not what the tokenizer does and are not allowed (but
    taken, from those who find out by themselves what is allowed).

    Args:
        ids: what was taken back, at least one id.

    Attributes:
        num_ids: how many these are; at most so many ids spell nothing but the text.
    """

    def __init__(self, prefixes: TokenPrefixes, ids: Sequence[int]) -> None:
        self.num_ids = len(ids)
        self._prefixes = prefixes
        self._ids = list(ids)
        self._next = list(ids)
        self._left = b"".join(map(prefixes.token_bytes, ids))

    @property
    def text(self) -> bytes:
        """The whole text."""
        return b"".join(map(self._prefixes.token_bytes, self._ids))

    def anew(self) -> Healing:
        """The same before any id was taken."""
        return Healing(self._prefixes, self._ids)

    @property
    def active(self) -> bool:
        """Whether some of the text is not spelled yet."""
        return bool(self._left)

    def allowed(self) -> _Ints:
        """Ids that may come next, while `active`."""
        found = self._prefixes.starting_with(self._left)
        expected = self._next[0]
        return found if expected in found else np.append(found, expected)

    def take(self, token: int) -> bytes:
        """Take the next id; its bytes behind the healed text."""
        data = self._prefixes.token_bytes(token)
        if data.startswith(self._left):
            behind = data[len(self._left) :]
            self._left = b""
            return behind
        assert self._left.startswith(data), "a token that healing does not allow"
        self._next = self._next[1:]
        self._left = self._left[len(data) :]
        return b""
