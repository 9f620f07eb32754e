"""Rebuilds the tokenizer that a GGUF file describes in its metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sgc_ir.errors import ModelError
from sgc_runtime.model.gguf_file import open_gguf
from sgc_runtime.tokenizer.pretokenizers import byte_level, scheme_for
from sgc_runtime.tokenizer.source import TokenizerSource

# Values of `tokenizer.ggml.token_type`
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)

_BLANK = "\u2581"  # how SentencePiece writes a blank
_NAMES = {
    "bos_token_id": "bos_token",
    "eos_token_id": "eos_token",
    "unknown_token_id": "unk_token",
    "padding_token_id": "pad_token",
    "seperator_token_id": "sep_token",
}


def read_gguf(file: Path) -> TokenizerSource:
    """The tokenizer of a GGUF file.

    Raises:
        ModelError: no tokenizer in it, an unknown kind or pre-tokenizer, or damaged lists.
    """
    return source_from_metadata(open_gguf(file).metadata, str(file))


def source_from_metadata(metadata: Mapping[str, Any], place: str) -> TokenizerSource:
    """The tokenizer that GGUF metadata describe; `place` is for messages. Raises ModelError."""
    fields = _Fields(metadata, place)
    kind = metadata.get("tokenizer.ggml.model")
    if kind == "gpt2":
        data, add_bos = _byte_level_data(fields)
    elif kind == "llama":
        data, add_bos = _sentencepiece_data(fields), True
    else:
        what = "no tokenizer" if kind is None else f"a tokenizer of kind {kind!r}"
        raise ModelError(
            f"{place} holds {what}; known kinds are gpt2 and llama: "
            "take the model's Hugging Face directory"
        )
    own = metadata.get("tokenizer.ggml.add_bos_token")
    return TokenizerSource(
        place=place,
        data=data,
        special=fields.special(),
        add_bos=add_bos if own is None else bool(own),
        eos_ids=fields.eos_ids(),
        chat_template=fields.chat_template(),
        textless_ids=frozenset(i for i, kind in enumerate(fields.types) if kind == UNUSED),
    )


class _Fields:
    """The tokenizer's lists, checked against each other."""

    def __init__(self, metadata: Mapping[str, Any], place: str) -> None:
        self._metadata = metadata
        self.place = place
        self.tokens: list[str] = self.array("tokens")
        if not self.tokens:
            raise ModelError(f"{place} holds no tokens: fetch the model again")
        self.types: list[int] = self.array("token_type") or [NORMAL] * len(self.tokens)
        self._same_length("token_type", self.types)

    def array(self, name: str) -> list[Any]:
        value = self._metadata.get(f"tokenizer.ggml.{name}")
        return value if isinstance(value, list) else []

    def get(self, name: str, default: Any) -> Any:
        return self._metadata.get(f"tokenizer.ggml.{name}", default)

    def scores(self) -> list[float]:
        scores = self.array("scores")
        self._same_length("scores", scores)
        return scores

    def _same_length(self, name: str, values: Sequence[Any]) -> None:
        if len(values) != len(self.tokens):
            raise ModelError(
                f"{self.place} is damaged ({len(self.tokens)} tokens but {len(values)} "
                f"entries in {name}): fetch the model again"
            )

    def special(self) -> dict[str, str]:
        found = {}
        for key, name in _NAMES.items():
            token_id = self.get(key, None)
            if isinstance(token_id, int) and 0 <= token_id < len(self.tokens):
                found[name] = self.tokens[token_id]
        return found

    def eos_ids(self) -> tuple[int, ...]:
        ids = [self.get(key, None) for key in ("eos_token_id", "eot_token_id", "eom_token_id")]
        known = range(len(self.tokens))
        return tuple(dict.fromkeys(i for i in ids if isinstance(i, int) and i in known))

    def chat_template(self) -> str | None:
        own = self._metadata.get("tokenizer.chat_template")
        return own if isinstance(own, str) and own.strip() else None

    def added_tokens(self) -> list[dict[str, Any]]:
        """Control tokens are special; user-defined ones are text that is matched whole."""
        return [
            {
                "id": i,
                "content": text,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": kind != USER_DEFINED,
            }
            for i, (text, kind) in enumerate(zip(self.tokens, self.types, strict=True))
            if kind in (UNKNOWN, CONTROL, USER_DEFINED) and text
        ]

    def vocabulary(self) -> dict[str, int]:
        vocab: dict[str, int] = {}
        for i, text in enumerate(self.tokens):
            if vocab.setdefault(text, i) != i:
                raise ModelError(f"{self.place} is damaged (token {text!r} twice): fetch it again")
        return vocab


def _byte_level_data(fields: _Fields) -> tuple[dict[str, Any], bool]:
    scheme = scheme_for(str(fields.get("pre", "default")), fields.place)
    merges = [merge.split(" ") for merge in fields.array("merges")]
    if any(len(pair) != 2 for pair in merges):
        raise ModelError(f"{fields.place} is damaged (a merge is no pair): fetch the model again")
    model = {
        "type": "BPE",
        "ignore_merges": scheme.ignore_merges,
        "vocab": fields.vocabulary(),
        "merges": merges,
    }
    data = {
        "added_tokens": fields.added_tokens(),
        "normalizer": scheme.normalizer(),
        "pre_tokenizer": scheme.pre_tokenizer(),
        "decoder": byte_level(use_regex=True),
        "model": model,
    }
    return data, scheme.add_bos


def _sentencepiece_data(fields: _Fields) -> dict[str, Any]:
    vocab = fields.vocabulary()
    has_bytes = BYTE in fields.types
    unknown = next((i for i, kind in enumerate(fields.types) if kind == UNKNOWN), None)
    steps: list[dict[str, Any]] = []
    if fields.get("add_space_prefix", True):
        steps.append({"type": "Prepend", "prepend": _BLANK})
    steps.append({"type": "Replace", "pattern": {"String": " "}, "content": _BLANK})
    merges = [merge.split(" ") for merge in fields.array("merges")]
    model = {
        "type": "BPE",
        "unk_token": None if unknown is None else fields.tokens[unknown],
        "fuse_unk": True,
        "byte_fallback": has_bytes,
        "vocab": vocab,
        "merges": merges or merges_from_scores(fields.tokens, fields.types, fields.scores()),
    }
    return {
        "added_tokens": fields.added_tokens(),
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": None,
        "decoder": {"type": "ByteFallback"},
        "model": model,
    }


def merges_from_scores(
    tokens: Sequence[str], types: Sequence[int], scores: Sequence[float]
) -> list[tuple[str, str]]:
    """The merge list that makes BPE join what SentencePiece joins: best score first.

    Every way to cut a token in two known ones is a merge; those of one token stand together,
    the longer left part first.
    """
    parts = {text: i for i, text in enumerate(tokens) if types[i] == NORMAL}
    found: list[tuple[float, int, int, int, str, str]] = []
    for text, i in parts.items():
        for cut in range(1, len(text)):
            left, right = text[:cut], text[cut:]
            if left in parts and right in parts:
                found.append((-scores[i], -cut, cut - len(text), i, left, right))
    found.sort(key=lambda merge: merge[:4])
    return [(left, right) for *_, left, right in found]
