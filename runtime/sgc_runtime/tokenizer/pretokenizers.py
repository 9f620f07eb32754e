"""Pre-tokenizers by the name that a GGUF file gives in `tokenizer.ggml.pre`.

Each entry is what the original model's `tokenizer.json` says. A wrong one still decodes every
token, but changes the ids of some prompts, so an unknown name is refused and not guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sgc_ir.errors import ModelError

_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True, slots=True)
class ByteLevelScheme:
    """How a byte-level BPE cuts text before merging.

    Attributes:
        split: regex whose matches become words, or None for GPT-2's own.
        single_digits: cut every digit off first.
        nfc: bring text to Unicode NFC first.
        ignore_merges: a word that is in the vocabulary as a whole is taken as it is.
        add_bos: BOS before raw text where the file does not say.
    """

    split: str | None = None
    single_digits: bool = False
    nfc: bool = False
    ignore_merges: bool = False
    add_bos: bool = False

    def normalizer(self) -> dict[str, Any] | None:
        """The `normalizer` entry of `tokenizer.json`."""
        return {"type": "NFC"} if self.nfc else None

    def pre_tokenizer(self) -> dict[str, Any]:
        """The `pre_tokenizer` entry of `tokenizer.json`."""
        steps: list[dict[str, Any]] = []
        if self.single_digits:
            steps.append({"type": "Digits", "individual_digits": True})
        if self.split is not None:
            pattern = {"Regex": self.split}
            steps.append(
                {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}
            )
        steps.append(byte_level(use_regex=self.split is None))
        return {"type": "Sequence", "pretokenizers": steps}


def byte_level(use_regex: bool) -> dict[str, Any]:
    """The `ByteLevel` step of `tokenizer.json`."""
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": use_regex,
    }


_GPT2 = ByteLevelScheme()
_SINGLE_DIGITS = ByteLevelScheme(single_digits=True)
_LLAMA_BPE = ByteLevelScheme(split=_LLAMA3, ignore_merges=True, add_bos=True)

SCHEMES: dict[str, ByteLevelScheme] = {
    "default": _GPT2,
    "gpt-2": _GPT2,
    "smollm": _SINGLE_DIGITS,
    "starcoder": _SINGLE_DIGITS,
    "refact": _SINGLE_DIGITS,
    "llama-bpe": _LLAMA_BPE,
    "llama3": _LLAMA_BPE,
    "llama-v3": _LLAMA_BPE,
    "qwen2": ByteLevelScheme(split=_QWEN2, nfc=True),
    "deepseek-r1-qwen": ByteLevelScheme(split=_QWEN2),
    "tekken": ByteLevelScheme(split=_TEKKEN, ignore_merges=True, add_bos=True),
}


def scheme_for(name: str, place: str) -> ByteLevelScheme:
    """The scheme that `tokenizer.ggml.pre` names.

    Raises:
        ModelError: a name that is not known.
    """
    if name not in SCHEMES:
        raise ModelError(
            f"{place} uses the pre-tokenizer {name!r}, which is not known "
            f"(known: {', '.join(sorted(SCHEMES))}): take the model's Hugging Face directory"
        )
    return SCHEMES[name]
