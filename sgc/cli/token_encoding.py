"""A model's tokenizer and sizes for `sgc explain`, without its weights."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sgc_runtime.executor.backend import Text

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
        parts = self._controls.split(text)
        pieces = [Text(part, bool(i % 2)) for i, part in enumerate(parts) if part]
        ids = self._tokenizer.encode_pieces(pieces, start=start)
        bos = self._tokenizer.bos_id
        return [bos, *ids] if start and bos is not None and ids[:1] != [bos] else ids


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
