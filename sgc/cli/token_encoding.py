"""A model's tokenizer and sizes for `sgc explain`, without its weights."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sgc_ir.analysis.encoding import Scored
from sgc_runtime.executor.backend import Text
from sgc_runtime.tokenizer.borders import BLANKS

if TYPE_CHECKING:
    from sgc_ir.analysis.encoding import Encoding
    from sgc_ir.analysis.known_stream import Renderer
    from sgc_runtime.tokenizer.tokenizer import Tokenizer

_BYTES = 2  # of a number in a KV cache of 16 bits


@dataclass(frozen=True, slots=True)
class Counting:
    """How prompts are rendered and counted.

    Attributes:
        unit: "tokens" of the model, or "words".
        kv_bytes: of one token's keys and values in 16 bits; None without a model.
    """

    encoding: Encoding
    renderer: Renderer
    unit: str
    kv_bytes: int | None


class TokenizerEncoding:
    """Ids as the engine has them: control tokens of the template are one id each."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        texts = sorted(map(re.escape, tokenizer.control_texts.values()), key=len, reverse=True)
        self._controls = re.compile(f"({'|'.join(texts)})" if texts else "((?!))")

    def encode(self, text: str, start: bool) -> list[int]:
        return self._ids(self._pieces(text), start)

    def scored(self, text: str, choices: tuple[str, ...], start: bool) -> Scored:
        """As the engine's `plan_choices`: blanks that end the text belong to the choices."""
        pieces, blanks = self._pieces(text), ""
        if pieces and not pieces[-1].control:
            last = pieces.pop().text
            kept = last.rstrip(BLANKS.decode())
            blanks = last[len(kept) :]
            pieces += [Text(kept)] if kept else []
        ids = self._ids(pieces, start)
        joined = [self._ids([*pieces, Text(blanks + choice)], start) for choice in choices]
        count = min(_common(ids, other) for other in joined)
        lengths = [len(other) - count for other in joined]
        return Scored(ids[:count], min(lengths), max(lengths))

    def _pieces(self, text: str) -> list[Text]:
        parts = self._controls.split(text)
        return [Text(part, bool(i % 2)) for i, part in enumerate(parts) if part]

    def _ids(self, pieces: Sequence[Text], start: bool) -> list[int]:
        ids = self._tokenizer.encode_pieces(pieces, start=start)
        bos = self._tokenizer.bos_id
        return [bos, *ids] if start and bos is not None and ids[:1] != [bos] else ids


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def counting(model: str | None) -> Counting:
    """For model `model`, else in words with ChatML for roles.

    Raises ModelError for a model that cannot be read.
    """
    if model is None:
        from sgc_ir.analysis.encoding import Words
        from sgc_runtime.executor.chatml import ChatML

        return Counting(Words(), ChatML(), "words", None)
    from sgc_runtime.models import resolve
    from sgc_runtime.tokenizer.tokenizer import load_tokenizer

    place = resolve(model)
    tokenizer = load_tokenizer(place)
    encoding = TokenizerEncoding(tokenizer)
    return Counting(encoding, tokenizer.chat_template, "tokens", _kv_bytes(place))


def _kv_bytes(place: Path) -> int:
    if place.suffix == ".gguf":
        from sgc_runtime.model.config_gguf import read_gguf_config
        from sgc_runtime.model.gguf_file import open_gguf

        config = read_gguf_config(open_gguf(place))
    else:
        from sgc_runtime.model.config_hf import read_hf_config

        config = read_hf_config(place)
    return 2 * config.num_layers * config.num_kv_heads * config.head_dim * _BYTES
