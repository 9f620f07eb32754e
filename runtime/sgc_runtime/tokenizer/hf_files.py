"""Reads a tokenizer out of a Hugging Face model directory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sgc_ir.errors import ModelError
from sgc_runtime.tokenizer.source import TokenizerSource

_NAMED = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


def read_directory(folder: Path) -> TokenizerSource:
    """The tokenizer of a model directory.

    `tokenizer.json` is taken as it stands, its post-processor decides about BOS (the
    `add_bos_token` of the configuration does not count, as in transformers); a directory without
    one (`vocab.json` and `merges.txt`, or `tokenizer.model`) is converted by transformers.

    Raises:
        ModelError: no tokenizer there, or a file that cannot be read.
    """
    config = _read_json(folder / "tokenizer_config.json")
    file = folder / "tokenizer.json"
    data = _read_json(file) if file.is_file() else _converted(folder)
    _check_form(data, file)
    _merge_added_tokens(data, config)
    special, extra = _special_tokens(folder, config)
    return TokenizerSource(
        place=str(folder),
        data=data,
        special=special,
        extra_special=extra,
        eos_ids=_eos_ids(folder),
        chat_template=_chat_template(folder, config),
    )


def _read_json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot read {file} ({error}): fetch the model again") from error
    if not isinstance(data, dict):
        raise ModelError(f"{file} is not a JSON object: fetch the model again")
    return data


def _check_form(data: Mapping[str, Any], file: Path) -> None:
    model = data.get("model")
    if not isinstance(model, dict):
        raise ModelError(f"{file} holds no tokenizer model: fetch the model again")
    vocab, added = model.get("vocab"), data.get("added_tokens") or []
    pairs = isinstance(vocab, list) and all(isinstance(p, list) and len(p) == 2 for p in vocab)
    good = isinstance(added, list) and all(
        isinstance(token, dict) and isinstance(token.get("content"), str) for token in added
    )
    merges = model.get("merges", [])
    good = good and isinstance(merges, list) and all(isinstance(m, (str, list)) for m in merges)
    if not good or not (isinstance(vocab, dict) or pairs):
        raise ModelError(f"{file} is no tokenizer of a known form: fetch the model again")


def _converted(folder: Path) -> dict[str, Any]:
    sources = ("vocab.json", "tokenizer.model", "vocab.txt", "spiece.model", "tekken.json")
    if not any((folder / name).is_file() for name in sources):
        raise ModelError(f"{folder} has no tokenizer.json: give the model's whole directory")
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
        text = tokenizer.backend_tokenizer.to_str()
    except (ImportError, OSError, ValueError, AttributeError, KeyError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(
            f"{folder} has no tokenizer.json and its tokenizer cannot be converted ({reason}): "
            "save it with transformers as tokenizer.json"
        ) from error
    data: dict[str, Any] = json.loads(text)
    return data


def _merge_added_tokens(data: dict[str, Any], config: Mapping[str, Any]) -> None:
    """Let the flags in `added_tokens_decoder` win, as transformers does."""
    added: list[dict[str, Any]] = data.get("added_tokens") or []
    data["added_tokens"] = added
    by_text = {token["content"]: token for token in added}
    listed = config.get("added_tokens_decoder") or {}
    for token_id, token in sorted(listed.items(), key=lambda item: int(item[0])):
        if not isinstance(token, dict) or "content" not in token:
            continue
        entry = by_text.get(token["content"])
        if entry is None:
            added.append({"id": int(token_id), **token})
        else:
            entry.update({key: value for key, value in token.items() if key in entry})


def _special_tokens(
    folder: Path, config: Mapping[str, Any]
) -> tuple[dict[str, str], tuple[str, ...]]:
    merged = {**_read_json(folder / "special_tokens_map.json"), **config}
    special: dict[str, str] = {}
    for name in _NAMED:
        text = _token_text(merged.get(f"{name}_token"))
        if text is not None:
            special[f"{name}_token"] = text
    listed: list[Any] = []
    for key in ("additional_special_tokens", "extra_special_tokens"):
        value = merged.get(key) or []
        listed += list(value.values()) if isinstance(value, dict) else list(value)
    texts = (_token_text(value) for value in listed)
    return special, tuple(text for text in texts if text is not None)


def _token_text(value: Any) -> str | None:
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) and value else None


def _eos_ids(folder: Path) -> tuple[int, ...]:
    # generation_config.json is what transformers' generate reads; config.json is its fallback.
    for name in ("generation_config.json", "config.json"):
        value = _read_json(folder / name).get("eos_token_id")
        if isinstance(value, int):
            return (value,)
        if isinstance(value, list):
            return tuple(int(item) for item in value)
    return ()


def _chat_template(folder: Path, config: Mapping[str, Any]) -> str | None:
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    own = config.get("chat_template") or _read_json(folder / "chat_template.json").get(
        "chat_template"
    )
    if isinstance(own, list):
        named = {entry["name"]: entry["template"] for entry in own}
        own = named.get("default")
    return own if isinstance(own, str) else None
