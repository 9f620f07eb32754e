"""Text that follows ids: what is encoded, and which of the ids before it change.

The canonical rule takes the last few ids back to a border that no token crosses (a blank after
something else), encodes their text together with what follows, and keeps the ids only as far as
they come out the same. Ids of control tokens and everything before them never change.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sgc_runtime.cache.radix_tree import Ids, common_prefix
from sgc_runtime.engine.options import SEAMS
from sgc_runtime.engine.vocabulary import Vocabulary
from sgc_runtime.executor.backend import Text
from sgc_runtime.tokenizer.borders import BLANKS, inside_character, is_border
from sgc_runtime.tokenizer.incremental import decode_bytes

MAX_TAIL_IDS = 32  # how far back a border is looked for

_MEMO_ENTRIES = 1024
_MEMO_CHARS = 20_000  # longer texts are not remembered


@dataclass(frozen=True, slots=True)
class Joined:
    """`ids` go on with the text; the first `kept` of them are the ids that were there before."""

    ids: Ids
    kept: int


class Seams:
    """Joins text to ids under one policy; remembers what it encoded, so that streams that go on
    from one prompt encode it once.

    Args:
        policy: `canonical`, or `splice`: ids stay as they are.
    """

    def __init__(self, vocabulary: Vocabulary, policy: str = "canonical") -> None:
        assert policy in SEAMS, policy
        self.vocabulary = vocabulary
        self._policy = policy
        self._controls = tuple(text for text in vocabulary.control_texts.values() if text)
        self._memo: OrderedDict[tuple[object, ...], list[int]] = OrderedDict()

    def join(self, ids: Ids, pieces: Sequence[Text], pending: int = 0) -> Joined:
        """`ids` followed by `pieces` (some text in them).

        Args:
            pending: bytes of an incomplete character at the end of `ids`, to be dropped.
        """
        first = next(p for p in pieces if p.text)
        if not len(ids):
            bos = self.vocabulary.bos_id
            # A chat template writes its own BOS, or wants none.
            begin = [] if bos is None or first.control else [bos]
            return Joined(_ids(begin + self._encode(pieces, self._at_start(ids))), 0)
        spliced = self._policy == "splice" or self._begins_with_control(first)
        if spliced and not pending:
            return self._append(ids, len(ids), "", pieces)
        return self._rejoin(ids, pieces, pending, tail_of_pending_only=spliced)

    def bos_once(self, before: bool, pieces: Sequence[Text]) -> tuple[Text, ...]:
        """`pieces`, the first of a stream that hold text of a chat template, without the BOS with
        which the template begins where raw text, which has one already, stands in front.

        Args:
            before: there are ids in front of the pieces.
        """
        bos = self.vocabulary.bos_id
        at = next((i for i, p in enumerate(pieces) if p.control), None)
        if bos is None or at is None or not (before or at):
            return tuple(pieces)
        rest = pieces[at].text.removeprefix(self.vocabulary.control_texts[bos])
        kept = (Text(rest, control=True),) if rest else ()
        return (*pieces[:at], *kept, *pieces[at + 1 :])

    def without_end(self, ids: Ids, text: str) -> Joined:
        """`ids` without `text`, with which their text ends (and no control token inside it)."""
        start = self._tail_start(ids, len(text.encode()))
        tail = self._tail_text(ids, start)
        assert tail.endswith(text), "text to take away is not at the end"
        return self._append(ids, start, tail[: len(tail) - len(text)], ())

    def end_blanks(self, ids: Ids) -> str:
        """The blanks with which the text of `ids` ends."""
        blanks = b""
        for token in reversed(ids.tolist()):
            data = self.vocabulary.token_bytes(token)
            rest = data.rstrip(BLANKS)
            blanks = data[len(rest) :] + blanks
            if rest or not data:
                break
        return blanks.decode()

    # -- below --------------------------------------------------------------------------------

    def _rejoin(
        self, ids: Ids, pieces: Sequence[Text], pending: int, tail_of_pending_only: bool
    ) -> Joined:
        start = self._tail_start(ids, pending, shortest=tail_of_pending_only)
        tail = self._tail_text(ids, start, pending)
        return self._append(ids, start, tail, pieces)

    def _append(self, ids: Ids, start: int, tail: str, pieces: Sequence[Text]) -> Joined:
        """`ids[:start]`, then the text: what comes out as it was counts as kept."""
        # The tail has the blank in it that the tokenizer may have put in front.
        joined = [Text(tail), *pieces] if tail else list(pieces)
        new = _ids(self._encode(joined, not tail and self._at_start(ids[:start])))
        kept = start + common_prefix(ids[start:], new)
        return Joined(np.concatenate([ids[:start], new]), kept)

    def _tail_start(self, ids: Ids, num_bytes: int, shortest: bool = False) -> int:
        """Where the tail begins: it holds the last `num_bytes` bytes, and at least one id."""
        at, size = len(ids), 0
        data = self._bytes_before(ids, at)
        while at > 0 and data:
            at, size = at - 1, size + len(data)
            before = self._bytes_before(ids, at)
            long_enough = size >= num_bytes and not inside_character(data)
            if long_enough and (
                shortest or is_border(before, data) or len(ids) - at >= MAX_TAIL_IDS
            ):
                break
            data = before
        return at

    def _bytes_before(self, ids: Ids, at: int) -> bytes:
        """Bytes of the id before position `at`; none at the beginning or behind a control."""
        return self.vocabulary.token_bytes(int(ids[at - 1])) if at > 0 else b""

    def _tail_text(self, ids: Ids, start: int, pending: int = 0) -> str:
        data = b"".join(map(self.vocabulary.token_bytes, ids[start:].tolist()))
        return decode_bytes(data[: max(0, len(data) - pending)])

    def _at_start(self, before: Ids) -> bool:
        return self.vocabulary.at_start(before[-2:].tolist())

    def _begins_with_control(self, piece: Text) -> bool:
        return piece.control and piece.text.startswith(self._controls)

    def _encode(self, pieces: Sequence[Text], start: bool) -> list[int]:
        if sum(len(p.text) for p in pieces) > _MEMO_CHARS:
            return self.vocabulary.encode_pieces(pieces, start=start)
        key = (start, *pieces)
        # Event loops of several threads come by here: no step relies on the one before it.
        found = self._memo.pop(key, None)
        if found is None:
            found = self.vocabulary.encode_pieces(pieces, start=start)
        self._memo[key] = found  # the last to be dropped
        if len(self._memo) > _MEMO_ENTRIES:
            self._memo.popitem(last=False)
        return found


def _ids(values: Sequence[int]) -> Ids:
    return np.array(values, np.int32)
