"""The scripted model of the shape tests: a pure function of prompt and parameters."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from support.legal_texts import legal_text

WORDS = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron", "iris", "jade"]

# A text that matches, for each pattern and schema that a shape uses.
BY_REGEX = {
    r"[0-9]{3}": "427",
    r"[a-c]+x?": "abcax",
    r"(red|green|blue)": "green",
}


def digest(text: str) -> int:
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=6).digest(), "big")


def reply(prompt: str, params: Any) -> str:
    """What the model goes on with; depends on the whole prompt, so a lost prefix shows."""
    h = digest(prompt + repr(params.seed))
    if params.dtype == "int":
        return f"{h % 5 + 2} and so on"
    if params.dtype == "float":
        return f"{h % 90}.{h % 10} and so on"
    if params.dtype == "bool":
        return "True" if h % 2 else "False"
    if params.dtype == "str":
        return json.dumps(f'{WORDS[h % 10]} "quoted" é') + " tail"
    if params.regex is not None:
        return BY_REGEX.get(params.regex) or legal_text(params, h)
    if params.json_schema is not None and "title" in params.json_schema:  # of a model
        return legal_text(params, h)
    if params.json_schema is not None:
        return json.dumps({"name": WORDS[h % 10], "age": h % 90, "tags": [WORDS[h % 7]]})
    if params.grammar is not None:
        return "1+2"
    words = [WORDS[(h >> (4 * i)) % 10] for i in range(6)]
    text = " " + " ".join(words[:3]) + "\n" + " ".join(words[3:]) + f" {h % 1000}. END more"
    return text


def select(prompt: str, choices: list[str]) -> list[float]:
    return [-(digest(prompt + "|" + c) % 1000) / 100 for c in choices]
