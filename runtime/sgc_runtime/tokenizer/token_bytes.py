"""What bytes of text each token stands for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from sgc_ir.errors import ModelError

Kind = Literal["byte_level", "sentencepiece"]

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_BLANK = "\u2581"


def kind_of(data: Mapping[str, Any], place: str) -> Kind:
    """Whether a `tokenizer.json` spells tokens in the byte alphabet or as text.

    Raises:
        ModelError: a kind whose tokens do not stand for exact text (WordPiece and the like).
    """
    if any(_uses(data.get(part), "ByteLevel") for part in ("pre_tokenizer", "decoder")):
        return "byte_level"
    model = data["model"]
    kind = model.get("type", "BPE" if "merges" in model else None)  # old files do not say
    exact = kind in ("BPE", "Unigram") and not model.get("end_of_word_suffix")
    if exact and not model.get("continuing_subword_prefix"):
        return "sentencepiece"
    raise ModelError(
        f"{place} has a tokenizer of kind {kind!r}, whose tokens do not give exact "
        "text: take a model with a byte-level or SentencePiece tokenizer"
    )


def _uses(step: Any, kind: str) -> bool:
    if isinstance(step, dict):
        return step.get("type") == kind or any(_uses(value, kind) for value in step.values())
    return isinstance(step, list) and any(_uses(value, kind) for value in step)


def byte_alphabet() -> dict[str, int]:
    """GPT-2's alphabet: one printable character for each byte.

    Printable Latin-1 characters stand for themselves, the other 68 bytes in their order for the
    characters from U+0100 on.
    """
    themselves = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in themselves]
    alphabet = {chr(byte): byte for byte in themselves}
    alphabet |= {chr(0x100 + i): byte for i, byte in enumerate(others)}
    return alphabet


class TokenBytes(dict[int, bytes]):
    """Bytes of each id, spelled when first asked for; ids that have no text (control tokens, unused
    places) give none.

    Args:
        kind: see `kind_of`.
        pieces: id -> token of the model's vocabulary, as the file spells it.
        literal: id -> added token, which is plain text.
        byte_fallback: `<0x0A>` and the like stand for single bytes.
    """

    def __init__(
        self,
        kind: Kind,
        pieces: Mapping[int, str],
        literal: Mapping[int, str],
        byte_fallback: bool,
    ) -> None:
        self._kind = kind
        self._pieces = pieces
        self._literal = literal
        self._byte_fallback = byte_fallback
        self._alphabet = byte_alphabet() if kind == "byte_level" else {}

    def __missing__(self, token_id: int) -> bytes:
        text = self[token_id] = self._spell(token_id)
        return text

    def _spell(self, token_id: int) -> bytes:
        if token_id in self._literal:
            return self._literal[token_id].replace(*self._blank()).encode()
        piece = self._pieces.get(token_id)
        if piece is None:
            return b""
        if self._kind == "byte_level":
            codes = [self._alphabet.get(char, -1) for char in piece]
            # A token outside the alphabet can never come out of text; it is spelled as it is.
            return bytes(codes) if min(codes, default=0) >= 0 else piece.encode()
        single = _BYTE_PIECE.fullmatch(piece) if self._byte_fallback else None
        return bytes([int(single[1], 16)]) if single else piece.replace(*self._blank()).encode()

    def _blank(self) -> tuple[str, str]:
        return (_BLANK, " ") if self._kind == "sentencepiece" else (" ", " ")
