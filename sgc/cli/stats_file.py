"""Reads the numbers of a run, a file of `sgc run --stats`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sgc.cli.failure import CommandError
from sgc_ir.json_text import read_json

_TEXTS = ("program", "node", "name")
_COUNTS = ("calls", "prompt_tokens", "cached_tokens", "completion_tokens")
_TIMES = ("waiting_seconds", "prefill_seconds", "decode_seconds")
_ADVICE = "give a file of `sgc run --stats`"


def read_stats(path: Path, option: str) -> Mapping[str, Any]:
    """The statistics in a file, those of its nodes checked. Raises CommandError, which names
    `option`, for what is no such file."""
    try:
        stats = read_json(path.read_text("utf-8"))
    except OSError as error:
        raise CommandError(f"{option} {path}: {error.strerror or error}", _ADVICE) from error
    except ValueError as error:
        raise CommandError(f"{option} {path}: {error}", _ADVICE) from error
    if not isinstance(stats, dict) or not isinstance(stats.get("nodes"), list):
        raise CommandError(f"{option} {path} has no nodes", _ADVICE)
    if not _is_amount(stats.get("seconds") or 0.0, float):
        raise CommandError(f"{option} {path}: its seconds are no number", _ADVICE)
    for place, node in enumerate(stats["nodes"]):
        wrong = _wrong_field(node)
        if wrong is not None:
            raise CommandError(f"{option} {path}: node {place} has no {wrong}", _ADVICE)
    return stats


def _wrong_field(node: Any) -> str | None:
    """The first field of a node that is missing or of another type."""
    if not isinstance(node, dict):
        return _TEXTS[0]
    texts = (name for name in _TEXTS if not isinstance(node.get(name), str))
    counts = (name for name in _COUNTS if not _is_amount(node.get(name), int))
    times = (name for name in _TIMES if not _is_amount(node.get(name) or 0.0, float))
    source = () if isinstance(node.get("source", ""), str | None) else ("source",)
    return next((name for part in (texts, counts, times, source) for name in part), None)


def _is_amount(value: Any, kind: type[int | float]) -> bool:
    wanted = (int, float) if kind is float else int
    is_number = isinstance(value, wanted) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value >= 0
