"""The regions of a call's tokens, out of what it says in characters of its prompt."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sgc_runtime.cache.radix_tree import Ids
from sgc_runtime.engine.request import Region
from sgc_runtime.engine.vocabulary import Vocabulary
from sgc_runtime.executor.backend import Beginning, Call

_UNKNOWN = -1


class TokenChars:
    """How many characters ids have: a character counts where its first byte is."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._chars: npt.NDArray[np.int32] = np.empty(0, np.int32)

    def tokens_within(self, ids: Ids, beginnings: Sequence[Beginning]) -> list[int]:
        """For each beginning how many of the first ids lie in it as wholes."""
        ends = np.cumsum(self._chars_of(ids), dtype=np.int64)
        wanted = [beginning.chars for beginning in beginnings]
        found: list[int] = np.searchsorted(ends, wanted, side="right").tolist()
        return found

    def _chars_of(self, ids: Ids) -> npt.NDArray[np.int32]:
        largest = int(ids.max(initial=-1))
        if largest >= len(self._chars):
            size = max(largest + 1, self._vocabulary.vocab_size)
            more = np.full(size - len(self._chars), _UNKNOWN, np.int32)
            self._chars = np.concatenate([self._chars, more])
        chars = self._chars[ids]
        unknown = chars == _UNKNOWN
        if unknown.any():
            for token in np.unique(ids[unknown]).tolist():
                self._chars[token] = self._count(token)
            chars = self._chars[ids]
        if len(ids) and int(ids[0]) == self._vocabulary.bos_id:
            chars[0] = 0  # it is no text
        return chars

    def _count(self, token: int) -> int:
        text = self._vocabulary.control_texts.get(token)
        if text is not None:
            return len(text)
        return sum(byte & 0xC0 != 0x80 for byte in self._vocabulary.token_bytes(token))


def regions_of(chars: TokenChars, call: Call, prompt: Ids, sample: int) -> tuple[Region, ...]:
    """What becomes of the tokens of one sample of a call; () where the call does not say.

    Args:
        prompt: its ids. What a further sample has made behind them nobody reads again.
    """
    if call.readers is None and not call.beginnings:
        return ()
    regions, start = [], 0
    ends = chars.tokens_within(prompt, call.beginnings) if call.beginnings else []
    for beginning, end in zip(call.beginnings, ends, strict=True):
        if end > start:
            regions.append(Region(start, beginning.readers, beginning.next_use))
            start = end
    if sample:
        return (Region(len(prompt), 0, None),)
    return (*regions, Region(start, call.readers, call.next_use))
