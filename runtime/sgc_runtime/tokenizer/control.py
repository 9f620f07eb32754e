"""Which tokens are control tokens, and how text that looks like one stays text.

The tokenizer works on a copy of its data in which every control token bears a secret name of
private-use characters. Text can not spell such a name, so whatever it says is encoded as text;
where a control token is meant, its name is put in. All other rules of the tokenizer (what goes
before or behind an added token, normalisation, merges) stay as they are.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sgc_runtime.tokenizer.source import TokenizerSource

_BARS = re.compile(r"<[|\uff5c].*[|\uff5c]>", re.DOTALL)
_MARKUP = re.compile(r"<(/?)([^<>|]+)>")


class ControlNames:
    """The control tokens' secret names.

    Args:
        tokens: texts of the control tokens.
        single_word: those of them that count only between other characters than letters.
    """

    def __init__(self, tokens: Iterable[str], single_word: Iterable[str] = ()) -> None:
        start = "".join(chr(0xF0000 + secrets.randbelow(0xFFF0)) for _ in range(5))
        self._names = {
            text: start + chr(0x100000 + i // 1024) + chr(0x101000 + i % 1024)
            for i, text in enumerate(dict.fromkeys(tokens))
        }
        self.texts = {name: text for text, name in self._names.items()}
        words = set(single_word)
        spelled = (
            rf"(?<!\w){re.escape(text)}(?!\w)" if text in words else re.escape(text)
            for text in sorted(self._names, key=lambda text: (-len(text), text))
        )
        self.pattern = re.compile("|".join(spelled) or r"(?!)")

    def hide(self, text: str) -> str:
        """`text` with its control tokens replaced by their names."""
        return self.pattern.sub(lambda found: self._names[found[0]], text)

    def name(self, text: str) -> str:
        """The name of a control token; any other token is its own name."""
        return self._names.get(text, text)

    def rename(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """`tokenizer.json` data with the control tokens renamed; lists are not shared."""
        added = [
            {**token, "content": self.name(token["content"]), "normalized": False}
            if token["content"] in self._names
            else dict(token)
            for token in data.get("added_tokens", [])
        ]
        return {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": added,
            "normalizer": data.get("normalizer"),
            "pre_tokenizer": data.get("pre_tokenizer"),
            "post_processor": data.get("post_processor"),
            "decoder": data.get("decoder"),
            "model": self._renamed_model(data["model"]),
        }

    def _renamed_model(self, model: Mapping[str, Any]) -> dict[str, Any]:
        renamed = dict(model)
        vocab = model.get("vocab")
        if isinstance(vocab, dict):
            renamed["vocab"] = {self.name(text): i for text, i in vocab.items()}
        elif isinstance(vocab, list):  # Unigram: pairs of piece and score
            renamed["vocab"] = [[self.name(text), score] for text, score in vocab]
        if isinstance(model.get("unk_token"), str):
            renamed["unk_token"] = self.name(model["unk_token"])
        if "merges" in model:
            pairs = (m.split(" ") if isinstance(m, str) else m for m in model["merges"])
            controls = self._names.keys()
            kept = [p for p in pairs if not controls & {*p, "".join(p)}]
            plain = not any(" " in part for pair in kept for part in pair)
            # Pairs written as one text are half the JSON.
            renamed["merges"] = [" ".join(pair) for pair in kept] if plain else kept
        return renamed


def complete_added_tokens(source: TokenizerSource) -> None:
    """Make every named special token an added token, if the vocabulary has it."""
    added: list[dict[str, Any]] = source.data.setdefault("added_tokens", [])
    known = {token["content"] for token in added}
    vocab = source.data["model"].get("vocab") or {}
    pieces = set(vocab) if isinstance(vocab, dict) else {piece for piece, _ in vocab}
    for text in (*source.special.values(), *source.extra_special):
        if text in pieces and text not in known:
            known.add(text)
            flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
            added.append({"id": _id_of(text, vocab), "content": text, "special": True, **flags})


def _id_of(text: str, vocab: Any) -> int:
    if isinstance(vocab, dict):
        return int(vocab[text])
    return next(i for i, (piece, _) in enumerate(vocab) if piece == text)


def control_tokens(source: TokenizerSource, render: Callable[[], str]) -> list[str]:
    """Texts of the tokens that steer a model and are no text of their own.

    These are the special tokens; added tokens between bars, `<|...|>`; and those that the chat
    template puts around turns, unless they are blank or a pair of markup tags such as `<think>`
    and `</think>`, which models write and read as text. Call `complete_added_tokens` before.

    Args:
        render: the template's text for a short conversation ("" without a template).
    """
    named = {*source.special.values(), *source.extra_special}
    added = source.data.get("added_tokens", [])
    texts = [token["content"] for token in added if token["content"]]
    present = set(texts)
    sure = {
        token["content"]
        for token in added
        if token.get("special") or token["content"] in named or _BARS.fullmatch(token["content"])
    }
    doubtful = [text for text in texts if text not in sure and not text.isspace()]
    if doubtful:
        rendered = render()
        sure |= {t for t in doubtful if t in rendered and not _is_markup_pair(t, present)}
    return [text for text in texts if text in sure]


def _is_markup_pair(text: str, present: set[str]) -> bool:
    found = _MARKUP.fullmatch(text)
    if found is None:
        return False
    partner = f"<{found[2]}>" if found[1] else f"</{found[2]}>"
    return partner in present
