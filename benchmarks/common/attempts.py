"""What was tried for goals that were missed, read from `benchmarks/attempts/NAME.json`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Attempt = Mapping[str, Any]

_ROOT = Path(__file__).resolve().parents[1]
_TEXTS = ("goal", "cause", "tried", "commit", "command")
_FIGURES = ("before", "after")
_ENTRIES = (*_TEXTS, *_FIGURES, "kept")
ENOUGH = 2  # attempts that a missed goal needs


def attempts_path(name: str) -> Path:
    """`benchmarks/attempts/NAME.json`."""
    return _ROOT / "attempts" / f"{name}.json"


def read_attempts(path: Path, parts: Sequence[str]) -> dict[str, list[Attempt]]:
    """Attempts by part (a name, or a letter of a text); none when there is no such file.

    The file holds a list of objects with `goal` (begins with its part: `a` or `(a)`), `cause`
    (what the profile showed), `tried`, `before` and `after` (a number, a text with a number in it,
    or numbers by name), `kept` (true or false), `commit` and `command`.

    Raises ValueError that names the file, the entry and what is wrong with it.
    """
    if not path.exists():
        return {}
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not JSON ({error}); mend the file") from error
    if not isinstance(entries, list):
        raise ValueError(f"{path}: a list of attempts is expected, not {_kind(entries)}")
    found: dict[str, list[Attempt]] = {}
    for number, entry in enumerate(entries):
        fault = _fault(entry)
        part = None if fault else _part(entry["goal"], parts)
        if part is None:
            known = parts if isinstance(parts, str) else ", ".join(parts)
            fault = fault or f"goal {entry['goal']!r} does not begin with one of ({known})"
            raise ValueError(f"{path}: attempt {number}: {fault}")
        found.setdefault(part, []).append(entry)
    return found


def lacking(result: Mapping[str, Any]) -> int:
    """How many attempts a part's result still needs: 0 where no goal is missed."""
    missed = any(
        reading.get("met") is False
        for entry in result.get("comparisons", ())
        for reading in (entry, *(v for v in entry.values() if isinstance(v, Mapping)))
    )
    attempts: Sequence[Attempt] = result.get("attempts", ())
    return max(0, ENOUGH - len(attempts)) if missed else 0


def _part(goal: str, parts: Sequence[str]) -> str | None:
    names = "|".join(map(re.escape, sorted(parts, key=len, reverse=True)))
    match = re.match(rf"\(?({names})\b", goal)
    return match[1] if match else None


def _fault(entry: Any) -> str | None:
    """What is wrong with the form of an attempt."""
    if not isinstance(entry, dict):
        return f"an object is expected, not {_kind(entry)}"
    absent = [name for name in _ENTRIES if name not in entry]
    unknown = [name for name in entry if name not in _ENTRIES]
    if absent or unknown:
        return f"{', '.join(absent or unknown)} {'is missing' if absent else 'is not known'}"
    for name in _TEXTS:
        if not isinstance(entry[name], str) or not entry[name].strip():
            return f"{name} must be a text"
    for name in _FIGURES:
        if not _is_figure(entry[name]):
            return f"{name} must be a number, a text with a number, or numbers by name"
    return None if isinstance(entry["kept"], bool) else "kept must be true or false"


def _is_figure(value: Any) -> bool:
    if isinstance(value, dict):
        return bool(value) and all(_is_figure(inner) for inner in value.values())
    if isinstance(value, str):
        return any(char.isdigit() for char in value)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}"
