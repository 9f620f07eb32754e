"""What a tokenizer is built from, whatever file it came out of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class TokenizerSource:
    """A tokenizer's data in the form of `tokenizer.json`, and what stands beside it.

    Attributes:
        place: the file or directory, for messages.
        data: content of `tokenizer.json`; the owner may change it.
        special: named special tokens: `bos_token`, `eos_token` ... -> text.
        extra_special: texts of further special tokens.
        add_bos: whether BOS goes before raw text; None: as the post-processor says.
        eos_ids: ids that end a generation, the `eos_token` itself left aside.
        chat_template: Jinja source, or None.
        textless_ids: ids that stand for no text (unused places of the vocabulary).
    """

    place: str
    data: dict[str, Any]
    special: Mapping[str, str] = field(default_factory=dict)
    extra_special: tuple[str, ...] = ()
    add_bos: bool | None = None
    eos_ids: tuple[int, ...] = ()
    chat_template: str | None = None
    textless_ids: frozenset[int] = frozenset()
