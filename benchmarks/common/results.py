"""A result file that is written anew after every part, so that an interruption loses one part."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]


class ResultFile:
    """A JSON object with a head (`what`, `conditions` ...) and one entry a part.

    Args:
        path: where it is written; parts of an older file are not kept.
        head: entries that stand before `parts`.
    """

    def __init__(self, path: Path, **head: Any) -> None:
        self._path = path
        self._content: dict[str, Any] = {**head, "parts": {}}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._write()

    def add(self, part: str, result: dict[str, Any]) -> None:
        """Keep the result of a part."""
        self._content["parts"][part] = result
        self._write()

    def _write(self) -> None:
        beside = self._path.with_suffix(".partial")
        beside.write_text(json.dumps(self._content, indent=1, default=float) + "\n")
        os.replace(beside, self._path)


def default_path(name: str) -> Path:
    """`benchmarks/results/NAME.json`."""
    return _ROOT / "results" / f"{name}.json"
