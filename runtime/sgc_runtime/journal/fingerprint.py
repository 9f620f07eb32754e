"""The fingerprint of a run: what must be the same for its journal to be of use."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from sgc_runtime.journal.digests import DIGEST_BYTES

DIGEST_MARK = "#"  # begins a text that stands for a content too long to show
_BLOCK_BYTES = 1 << 20
_SHOWN_CHARS = 60
_ABSENT = object()


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between two fingerprints, each in a few words, in the order of `now`."""
    names = [*now, *(name for name in before if name not in now)]
    return [
        _difference(name, before.get(name, _ABSENT), now.get(name, _ABSENT))
        for name in names
        if before.get(name, _ABSENT) != now.get(name, _ABSENT)
    ]


def file_digest(path: Path) -> str:
    """A text that stands for the content of a file. Raises OSError."""
    hasher = blake2b(digest_size=DIGEST_BYTES)
    with open(path, "rb") as file:
        while block := file.read(_BLOCK_BYTES):
            hasher.update(block)
    return DIGEST_MARK + hasher.hexdigest()


def _difference(name: str, before: Any, now: Any) -> str:
    if _is_digest(before) and _is_digest(now):
        return f"{name} is another one"
    if before is _ABSENT or (before is None and _is_digest(now)):
        return f"{name} is new"
    if now is _ABSENT or (now is None and _is_digest(before)):
        return f"{name} is missing"
    return f"{name} was {_shown(before)} and is {_shown(now)}"


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(DIGEST_MARK)


def _shown(value: Any) -> str:
    if _is_digest(value):
        return "another one"
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 3] + "..."
