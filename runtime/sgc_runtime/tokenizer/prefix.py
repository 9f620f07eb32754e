"""The blank that SentencePiece-style tokenizers put in front of text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

# "first": only at the very beginning; "always": also behind each added token.
PrefixScheme = Literal["never", "first", "always"]


def prefix_scheme(data: Mapping[str, Any]) -> PrefixScheme:
    """Where the tokenizer of these `tokenizer.json` data puts a blank in front of text."""
    found: set[str] = set()
    for step in _steps(data.get("normalizer")) + _steps(data.get("pre_tokenizer")):
        kind = step.get("type")
        if kind == "Prepend" or (kind == "ByteLevel" and step.get("add_prefix_space", True)):
            found.add("always")
        elif kind == "Metaspace":
            found.add(_metaspace_scheme(step))
    if "always" in found:
        return "always"
    return "first" if "first" in found else "never"


def without_prefix(data: Mapping[str, Any]) -> dict[str, Any]:
    """The same data with no blank put in front of text."""
    return {
        **data,
        "normalizer": _bare(data.get("normalizer")),
        "pre_tokenizer": _bare(data.get("pre_tokenizer")),
    }


def _metaspace_scheme(step: Mapping[str, Any]) -> str:
    scheme = step.get("prepend_scheme")
    if scheme is None:
        return "always" if step.get("add_prefix_space", True) else "never"
    return str(scheme).lower()


def _steps(step: Any) -> list[dict[str, Any]]:
    if not isinstance(step, dict):
        return []
    inner = step.get("normalizers") or step.get("pretokenizers")
    if inner is None:
        return [step]
    return [found for part in inner for found in _steps(part)]


def _bare(step: Any) -> Any:
    if not isinstance(step, dict):
        return step
    kind = step.get("type")
    if kind == "Prepend":
        return None
    if kind == "ByteLevel":
        return {**step, "add_prefix_space": False}
    if kind == "Metaspace":
        kept = {key: value for key, value in step.items() if key != "add_prefix_space"}
        return {**kept, "prepend_scheme": "never"}
    for key in ("normalizers", "pretokenizers"):
        if key in step:
            parts = [_bare(part) for part in step[key]]
            return {**step, key: [part for part in parts if part is not None]}
    return step
