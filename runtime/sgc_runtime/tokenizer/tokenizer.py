"""A model's tokenizer: text to ids and back, control tokens, and the chat template."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Lock

from tokenizers import Tokenizer as _Encoder

from sgc_ir.errors import InputError, ModelError
from sgc_runtime.executor.backend import Text
from sgc_runtime.tokenizer.chat import JinjaChatTemplate
from sgc_runtime.tokenizer.control import ControlNames, complete_added_tokens, control_tokens
from sgc_runtime.tokenizer.incremental import decode_bytes
from sgc_runtime.tokenizer.prefix import PrefixScheme, prefix_scheme, without_prefix
from sgc_runtime.tokenizer.source import TokenizerSource
from sgc_runtime.tokenizer.token_bytes import Kind, TokenBytes, kind_of
from sgc_runtime.tokenizer.turns import end_of_turn_tokens, sample_conversation
from sgc_runtime.tokenizer.words import words_of

_MALFORMED = (AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError)


def load_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of a Hugging Face directory or a GGUF file.

    Raises:
        ModelError: no tokenizer there, an unknown kind, or damaged files.
    """
    try:
        return Tokenizer(_read(path))
    except _MALFORMED as error:  # JSON of any other shape than expected
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise ModelError(
            f"the tokenizer of {path} is damaged ({reason}): fetch the model again"
        ) from error


def _read(path: Path) -> TokenizerSource:
    if path.is_dir():
        from sgc_runtime.tokenizer.hf_files import read_directory

        return read_directory(path)
    from sgc_runtime.tokenizer.gguf_tokenizer import read_gguf

    return read_gguf(path)


class Tokenizer:
    """Encodes and decodes; safe to call from several threads.

    Attributes:
        vocab_size: one more than the highest id.
        bos_id: the id that the tokenizer itself puts in front of raw text, or None.
        eos_ids: ids that end a generation.
        end_of_turn_ids: `eos_ids` and the token that the chat template writes behind an
            assistant's content.
        control_ids: ids of control tokens; they have no text.
        control_texts: their texts by id.
        chat_template: renders messages.
        calls: how often text was tokenised.
    """

    def __init__(self, source: TokenizerSource) -> None:
        kind = kind_of(source.data, source.place)
        complete_added_tokens(source)
        plain = JinjaChatTemplate(source.chat_template, source.special)
        controls = control_tokens(source, lambda: sample_conversation(plain))
        added = source.data.get("added_tokens", [])
        words = [token["content"] for token in added if token.get("single_word")]
        self._names = ControlNames(controls, words)
        self._data = self._names.rename(source.data)
        self._encoder = _build(self._data, source.place)
        self._prefix: PrefixScheme = prefix_scheme(self._data)
        self._words = words_of(self._encoder, self._data)
        bare = without_prefix(self._data) if self._prefix != "never" else None
        self._bare_encoder = self._encoder if bare is None else _build(bare, source.place)
        self._lock = Lock()
        self.calls = 0
        self._read_vocabulary(source, kind)
        self.chat_template = JinjaChatTemplate(source.chat_template, source.special, controls)
        self.bos_id = self._find_bos(source)
        self._read_ends(source, plain)

    def _read_vocabulary(self, source: TokenizerSource, kind: Kind) -> None:
        pieces = {i: text for text, i in self._encoder.get_vocab(with_added_tokens=False).items()}
        added = {i: t.content for i, t in self._encoder.get_added_tokens_decoder().items()}
        self.control_texts = {
            i: self._names.texts[name] for i, name in added.items() if name in self._names.texts
        }
        self.control_ids = frozenset(self.control_texts)
        self.vocab_size = max((*pieces, *added), default=-1) + 1
        literal = {i: text for i, text in added.items() if i not in self.control_ids}
        textless = self.control_ids | source.textless_ids
        self._token_bytes = TokenBytes(
            kind,
            {i: text for i, text in pieces.items() if i not in textless},
            {i: text for i, text in literal.items() if i not in textless},
            bool(source.data["model"].get("byte_fallback")),
        )
        # Splits in front of added tokens, the first of which ends the text before it.
        self._first_added = re.compile("|".join(map(re.escape, added.values())) or r"(?!)")
        self._strips_left = {
            t.content for t in self._encoder.get_added_tokens_decoder().values() if t.lstrip
        }

    def _find_bos(self, source: TokenizerSource) -> int | None:
        bos = self.control_id(source.special.get("bos_token", ""))
        if source.add_bos is not None:
            return bos if source.add_bos else None
        bare = self._encoder.encode("a", add_special_tokens=False).ids
        full = self._encoder.encode("a", add_special_tokens=True).ids
        before = full[: len(full) - len(bare)] if full[-len(bare) :] == bare else full[:1]
        return bos if bos is not None and before[:1] == [bos] else None

    def _read_ends(self, source: TokenizerSource, template: JinjaChatTemplate) -> None:
        eos = self.control_id(source.special.get("eos_token", ""))
        known = range(self.vocab_size)
        ids = (*source.eos_ids, *(() if eos is None else (eos,)))
        self.eos_ids = frozenset(i for i in ids if i in known)
        texts = end_of_turn_tokens(template, self._names.pattern)
        turns = {self.control_id(text) for text in texts}
        self.end_of_turn_ids = self.eos_ids | {i for i in turns if i is not None}

    def control_id(self, text: str) -> int | None:
        """The id of the control token that is written `text`, or None."""
        name = self._names.name(text)
        return self._encoder.token_to_id(name) if name != text else None

    def encode(self, text: str, *, start: bool = True) -> list[int]:
        """Ids of ordinary text; what looks like a control token is text. No BOS.

        Args:
            start: nothing or a control token stands before it (see `at_start`). Where it goes
                on behind other text, tokenizers that put a blank before text must not do so.

        Raises:
            InputError: `text` holds half of a surrogate pair.
        """
        return self._encode(text, start)

    def encode_pieces(self, pieces: Iterable[Text], *, start: bool = True) -> list[int]:
        """Ids of pieces that follow each other, tokenised as one text. No BOS. See `encode`."""
        return self._encode("".join(self._hidden(pieces)), start)

    def at_start(self, before: Sequence[int]) -> bool:
        """Whether the tokenizer puts a blank in front of text that follows `before`.

        The value for `start` of `encode` and for `drop_blank` when generated text is decoded.
        """
        if not before or (len(before) == 1 and before[0] == self.bos_id):
            return self._prefix != "never"
        return self._prefix == "always" and before[-1] in self.control_ids

    def token_bytes(self, token_id: int) -> bytes:
        """The exact bytes of text of one token; none for a control token or an unknown id."""
        return self._token_bytes[token_id]

    def decode(self, ids: Iterable[int], *, start: bool = True) -> str:
        """Text of `ids` without control tokens; invalid UTF-8 becomes U+FFFD.

        Args:
            start: the ids stand at the beginning, so that a blank put there by the tokenizer
                is left out.
        """
        data = b"".join(map(self._token_bytes.__getitem__, ids))
        return decode_bytes(data, start and self._prefix != "never")

    def _hidden(self, pieces: Iterable[Text]) -> list[str]:
        out: list[str] = []
        control = ""  # neighbouring control pieces may share a token
        for piece in pieces:
            if piece.control:
                control += piece.text
            elif piece.text:
                if control:
                    out.append(self._names.hide(control))
                    control = ""
                out.append(piece.text)
        return [*out, self._names.hide(control)] if control else out

    def _encode(self, text: str, start: bool) -> list[int]:
        if not text:
            return []
        with self._lock:
            self.calls += 1
        try:
            if start or self._prefix == "never":
                found = self._words.encode(text) if self._words is not None else None
                if found is not None:
                    return found
                return list(self._encoder.encode(text, add_special_tokens=False).ids)
            return self._encode_going_on(text)
        except (UnicodeEncodeError, TypeError) as error:
            raise _not_encodable(text, error) from error

    def _encode_going_on(self, text: str) -> list[int]:
        """Ids of text behind other text: no blank in front of its first part."""
        bare = self._bare_encoder
        found = self._first_added.search(text) if self._prefix == "always" else None
        if found is None:
            return list(bare.encode(text, add_special_tokens=False).ids)
        head, tail = text[: found.start()], text[found.start() :]
        if found[0] in self._strips_left:
            head = head.rstrip()
        ids = bare.encode(head, add_special_tokens=False).ids if head else []
        return [*ids, *self._encoder.encode(tail, add_special_tokens=False).ids]


def _build(data: dict[str, object], place: str) -> _Encoder:
    try:
        return _Encoder.from_str(json.dumps(data, ensure_ascii=False))
    except Exception as error:  # the library raises bare Exception for whatever it cannot read
        raise ModelError(
            f"the tokenizer of {place} is damaged ({error}): fetch the model again"
        ) from error


def _not_encodable(text: str, error: Exception) -> Exception:
    place = next((i for i, char in enumerate(text) if "\ud800" <= char <= "\udfff"), None)
    if place is None:
        return error
    return InputError(
        f"the text has half of a surrogate pair at character {place}, which is no text: "
        "decode the input with the right encoding"
    )
