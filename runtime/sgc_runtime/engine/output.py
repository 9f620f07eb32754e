"""Follows one gen's tokens: its text, what may be streamed, and when it ends."""

from __future__ import annotations

from collections.abc import Callable, Collection

from sgc_ir.params import SamplingParams
from sgc_runtime.engine.vocabulary import Vocabulary
from sgc_runtime.sampling.healing import Healing
from sgc_runtime.tokenizer.stops import StopSearch


class OutputWatcher:
    """Stop rules of one gen, in the order of precedence within a token: stop token id, EOS and
    end-of-turn, stop string or regex, `max_tokens`.

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
    ) -> None:
        self._params, self._vocabulary, self._on_text = params, vocabulary, on_text
        self._eos_ids = frozenset() if params.ignore_eos else frozenset(end_ids)
        self._search = StopSearch(params.stop, params.stop_regex, params.min_tokens, drop_blank)
        self._before = pending
        self._healing = healing
        self.num_healed = 0
        self.num_tokens = 0
        self.num_kept = 0
        self.finish_reason: str | None = None
        self.matched: str | int | None = None
        self.text = ""
        self.residual = ""
        self.pending = pending

    @property
    def num_kept_output(self) -> int:
        """Sampled tokens that stay; without any text the prompt stays as it was."""
        return self.num_healed + self.num_kept if self.num_kept else 0

    def held_back(self) -> Collection[int]:
        """Ids that `min_tokens` keeps from being sampled."""
        return self._eos_ids | frozenset(self._params.stop_token_ids)

    def push(self, token: int) -> bool:
        """Take a sampled token; True when the gen ends with it."""
        data = self._vocabulary.token_bytes(token)
        if self._healing is not None and self._healing.active:
            data = self._healing.take(token)
            if not data:
                self.num_healed += 1
                return False
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
        if self.num_tokens >= self._params.max_tokens:
            return self._end("length", None)
        self._stream(self._search.take())
        return False

    def _end(self, reason: str, matched: int | None) -> bool:
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
