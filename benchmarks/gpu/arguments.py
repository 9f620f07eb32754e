"""Arguments that the benchmarks on a GPU share."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

_MODEL_BYTES = 24 << 30  # of the largest that is made, and some more


def read_options(texts: list[str]) -> dict[str, Any]:
    """`NAME=JSON` each; what is no JSON is a text."""
    found = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def default_tokenizer() -> Path:
    """The default model's file, which is fetched if need be."""
    from sgc_runtime.models import DEFAULT_MODEL, resolve

    return Path(resolve(DEFAULT_MODEL))


def memory_folder() -> Path | None:
    """Where files lie in memory, if there is such a place with room for a model."""
    shared = Path("/dev/shm")
    return shared if shared.is_dir() and shutil.disk_usage(shared).free > _MODEL_BYTES else None
