"""A result file that is written anew after every part, so that an interruption loses one part."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.common.conditions import load_and_time

_ROOT = Path(__file__).resolve().parents[1]


class ResultFile:
    """A JSON object with `what` and one entry a part, each with the conditions it was measured in.

    Parts of an older file at `path` stay, with their own conditions, until they are measured
    again; those of a file whose conditions stood in its head take them from there.

    Args:
        path: where it is written.
        what: what is measured.
        conditions: of this run, from `conditions.conditions`; load and time are added anew
            when a part is done.
        facts: other settings of this run, which its parts keep beside the conditions.

    Raises ValueError when `path` holds something else than results.
    """

    def __init__(self, path: Path, *, what: str, conditions: Mapping[str, Any], **facts: Any):
        self._path = path
        self._conditions = {**facts, **conditions}
        self._content: dict[str, Any] = {"what": what, "parts": _older_parts(path)}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._write()

    @property
    def parts(self) -> Mapping[str, Mapping[str, Any]]:
        """All parts that the file holds, also those of earlier runs."""
        parts: dict[str, dict[str, Any]] = self._content["parts"]
        return parts

    def add(self, part: str, result: Mapping[str, Any]) -> None:
        """Keep the result of a part that was measured just now."""
        conditions = {**self._conditions, "done": load_and_time()}
        self._content["parts"][part] = {"conditions": conditions, **result}
        self._write()

    def note(self, part: str, name: str, value: Any) -> None:
        """Put a remark on a part that is there, whatever run it came from."""
        self._content["parts"][part][name] = value
        self._write()

    def _write(self) -> None:
        beside = self._path.with_suffix(".partial")
        beside.write_text(json.dumps(self._content, indent=1, default=float) + "\n")
        os.replace(beside, self._path)


def default_path(name: str) -> Path:
    """`benchmarks/results/NAME.json`."""
    return _ROOT / "results" / f"{name}.json"


def result_path(text: str) -> Path:
    """The type of `--output` for argparse, which refuses at the start what `ResultFile` could not
    write, or not add to, at the end."""
    path = Path(text)
    problem = ""
    if not path.parent.is_dir():
        problem = f"there is no folder {path.parent}; make it, or name another file"
    elif path.is_dir():
        problem = f"{path} is a folder; name a file"
    elif not os.access(path.parent, os.W_OK):
        problem = f"nothing can be written in {path.parent}; name another file"
    else:
        try:
            _older_parts(path)
        except (ValueError, OSError) as error:
            problem = str(error)
    if problem:
        raise argparse.ArgumentTypeError(problem)
    return path


def _older_parts(path: Path) -> dict[str, dict[str, Any]]:
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        head = {key: content[key] for key in content if key not in ("what", "parts")}
        head |= head.pop("conditions", {})
        return {name: {"conditions": head, **part} for name, part in content["parts"].items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(
            f"{path} holds no results ({type(error).__name__}: {error}); move it away, or name "
            "another file with --output"
        ) from error
