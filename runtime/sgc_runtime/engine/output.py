"""Follows one gen's tokens: its text, what may be streamed, and when it ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from sgc_ir.automata.compile import NUMBER_STOPS
from sgc_ir.params import SamplingParams
from sgc_runtime.constraints.canonical import MAX_WINDOW_IDS
from sgc_runtime.engine.vocabulary import Vocabulary
from sgc_runtime.sampling.healing import Healing
from sgc_runtime.tokenizer.stops import Mark, StopSearch

_NUMBERS = ("int", "float")
_MOST_MARKS = 32  # tokens that are taken back in the time that these take


class _Mark(NamedTuple):
    """Where a watcher was before a token that does not heal."""

    num_tokens: int
    num_kept: int
    search: Mark


class OutputWatcher:
    """Stop rules of one gen, in the order of precedence within a token: stop token id, EOS and
    end-of-turn, stop string or regex, the end of the constraint, `max_tokens`.

    After the end: `finish_reason`, `matched`, `text`, `num_kept` (tokens that stay as they are;
    before them stand `num_healed` that hold nothing but healed text, see `num_kept_output`),
    `residual` (text of a token that a stop cut, to be encoded anew) and `pending` (bytes of an
    incomplete character at the end of the kept tokens).

    Args:
        end_ids: EOS, and inside a role the end-of-turn ids; ignored under `ignore_eos`.
        pending: bytes of an incomplete character in front of the gen.
        healing: text of the prompt that the first tokens spell once more; tokens that hold
            nothing else count neither for `max_tokens` nor for stops.
        drop_blank: the tokenizer puts a blank in front of the text.
        on_text: called with each further piece of text.
        bound: a constraint follows the text, so tokens may be taken back.
    """

    def __init__(
        self,
        params: SamplingParams,
        vocabulary: Vocabulary,
        end_ids: Collection[int],
        *,
        pending: bytes = b"",
        drop_blank: bool = False,
        healing: Healing | None = None,
        on_text: Callable[[str], None] | None = None,
        bound: bool = False,
    ) -> None:
        self._params, self._vocabulary, self._on_text = params, vocabulary, on_text
        self._eos_ids = frozenset() if params.ignore_eos else frozenset(end_ids)
        self._stop = (*params.stop, *NUMBER_STOPS) if params.dtype in _NUMBERS else params.stop
        self._drop_blank, self._before, self._healing = drop_blank, pending, healing
        self._stop_ids = self._eos_ids.union(params.stop_token_ids)
        self._has_stop_texts = any(map(vocabulary.token_bytes, params.stop_token_ids))
        self._taken: list[int] | None = [] if bound else None
        self._marks: deque[_Mark] = deque(maxlen=_MOST_MARKS)
        self.finish_reason: str | None = None
        self.matched: str | int | None = None
        self.text = ""
        self.residual = ""
        self._begin()

    def _begin(self) -> None:
        p = self._params
        self._search = StopSearch(self._stop, p.stop_regex, p.min_tokens, self._drop_blank)
        # Where no text is looked at before the end, ids wait here for theirs.
        self._is_late = self._on_text is None and not self._search.has_stops
        self._late: list[int] = []
        self.num_healed = self.num_tokens = self.num_kept = 0
        self.pending = self._before

    @property
    def num_kept_output(self) -> int:
        """Sampled tokens that stay; without any text the prompt stays as it was."""
        return self.num_healed + self.num_kept if self.num_kept else 0

    def held_back(self) -> Collection[int]:
        """Ids that `min_tokens` keeps from being sampled."""
        return self._eos_ids | frozenset(self._params.stop_token_ids)

    @property
    def healed_text(self) -> bytes:
        """Text of the prompt that the first tokens spell once more."""
        return self._healing.text if self._healing is not None else b""

    @property
    def end_ids(self) -> Collection[int]:
        """Ids that end the gen and are no text: EOS and end-of-turn, and stop ids like them."""
        known = self._vocabulary.token_bytes
        return self._eos_ids | {t for t in self._params.stop_token_ids if not known(t)}

    def take_back(self, count: int) -> None:
        """Undo `push` of the last tokens, in place of which others with the same text come."""
        assert self._taken is not None
        heals = self._healing is not None  # with a token that may be the first of these
        if not self._search.has_stops and count <= self.num_kept - heals:
            del self._taken[len(self._taken) - count :]
            self.num_kept -= count
            self.num_tokens -= count
            if count <= len(self._late):
                del self._late[len(self._late) - count :]
            else:
                count -= len(self._late)
                self._late.clear()
                self._search.take_back(count)
            return
        if count > len(self._marks):
            self._replay(self._taken[: len(self._taken) - count])
            return
        for _ in range(count):
            mark = self._marks.pop()
        del self._taken[len(self._taken) - count :]
        self.num_tokens, self.num_kept = mark.num_tokens, mark.num_kept
        self._search.return_to(mark.search)

    def _replay(self, left: list[int]) -> None:
        """Take `left` anew, from the beginning."""
        assert self._taken is not None
        given = self._search.num_given_chars
        self._taken.clear()
        self._marks.clear()
        if self._healing is not None:
            self._healing = self._healing.anew()
        self._begin()
        self._search.num_given_chars = given
        listener, self._on_text = self._on_text, None
        for token in left:
            self.push(token)
        self._on_text = listener

    def push_all(self, tokens: Sequence[int], completes: bool = False) -> int:
        """Take tokens that come at once, up to the one with which the gen ends; how many.

        Args:
            completes: the constraint allows nothing behind the last one.
        """
        if self._is_late and self._is_plain(tokens):
            self._push_late(tokens)
            if completes:
                self._end("constraint", None)
            return len(tokens)
        last = len(tokens) - 1
        for place, token in enumerate(tokens):
            if self.push(token, completes and place == last):
                return place + 1
        return len(tokens)

    def _is_plain(self, tokens: Sequence[int]) -> bool:
        """Whether they are text and no more: none ends the gen, or heals."""
        return (
            self.num_tokens + len(tokens) < self._params.max_tokens
            and self._stop_ids.isdisjoint(tokens)
            and (self._healing is None or not self._healing.active)
        )

    def _push_late(self, tokens: Sequence[int]) -> None:
        """`push` of such tokens."""
        if self._taken is not None:
            self._taken += tokens
        self._late += tokens
        self.num_tokens += len(tokens)
        self.num_kept += len(tokens)

    def _catch_up(self) -> None:
        """Find the text of what has waited."""
        if not self._late:
            return
        texts = [self._vocabulary.token_bytes(token) for token in self._late]
        if len(texts) == self.num_kept:
            texts[0] = self._before + texts[0]
        self._late.clear()
        self._search.push_all(texts)

    def push(self, token: int, completes: bool = False) -> bool:
        """Take a token; True when the gen ends with it.

        Args:
            completes: the constraint allows nothing behind it.
        """
        if self._is_late and not completes and self._is_plain((token,)):
            self._push_late((token,))
            return False
        self._catch_up()
        if self._taken is not None:
            self._taken.append(token)
        data = self._vocabulary.token_bytes(token)
        if self._healing is not None and self._healing.active:
            data = self._healing.take(token)
            if not data:
                self.num_healed += 1
                return self._end("constraint", None) if completes else False
        elif self._taken is not None and self._search.has_stops:
            self._marks.append(_Mark(self.num_tokens, self.num_kept, self._search.mark()))
        self.num_tokens += 1
        if token in self._params.stop_token_ids:
            return self._end("stop", token)
        if token in self._eos_ids:
            return self._end("eos", token)
        if self.num_kept == 0:
            data = self._before + data
        self.num_kept += 1
        hit = self._search.push(data)
        if hit is not None:
            self.text, self.num_kept, self.residual = hit.text, hit.num_kept_tokens, hit.residual
            self.pending = b"" if self.num_kept else self._before
            return self._close("stop", hit.matched, self._search.take())
        if completes:
            return self._end("constraint", None)
        if self.num_tokens >= self._params.max_tokens:
            return self._end("length", None)
        if self._on_text is not None and not self._may_move:
            self._stream(self._search.take())
        return False

    def complete(self) -> None:
        """End the gen behind the last token: nothing may follow it."""
        self._end("constraint", None)

    def pause(self) -> None:
        """End here for now: text that may become a stop is not given away."""
        self._catch_up()
        self.finish_reason, self.text = "paused", self._search.text

    @property
    def _may_move(self) -> bool:
        """Whether tokens that are taken back may bring a stop into text that no stop may begin
        in now, which is not to be given away then: behind `min_tokens` only, but for stop ids
        with text, which may come in place of any tokens."""
        if self._taken is None:
            return False
        if self._has_stop_texts:
            return True
        p = self._params
        held = p.min_tokens > 0 and self.num_tokens <= p.min_tokens + MAX_WINDOW_IDS
        return held and bool(self._stop or p.stop_regex)

    def _end(self, reason: str, matched: int | None) -> bool:
        self._catch_up()
        self.text = self._search.text
        if self.num_kept:
            self.pending = self._search.pending
        return self._close(reason, matched, self._search.finish())

    def _close(self, reason: str, matched: str | int | None, piece: str) -> bool:
        self.finish_reason, self.matched = reason, matched
        self._stream(piece)
        return True

    def _stream(self, piece: str) -> None:
        if piece and self._on_text is not None:
            self._on_text(piece)
