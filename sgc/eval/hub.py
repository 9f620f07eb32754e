"""Fetches the data of a suite from the Hugging Face hub, into the files that its loader reads."""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sgc.eval.suite import Hub, Suite
from sgc.files import write_atomically
from sgc_ir.errors import EvalDataError
from sgc_kernels.cache_dir import cache_dir


def fetch_files(suite: Suite) -> Path:
    """The folder of the suite's files, which are fetched once and then kept in the user's cache.

    Raises EvalDataError for a suite without a data set on the hub, and where the package
    `datasets` or the network is not there.
    """
    if suite.hub is None:
        raise EvalDataError(f"{suite.name} is not on the hub; give its files by --data DIR")
    folder = cache_dir() / "eval" / suite.folder
    done = folder / ".fetched"
    if not done.exists():
        for path, split in suite.hub.splits.items():
            write_split(folder, path, _rows(suite.hub, split), suite.hub)
        done.touch()
    return folder


def write_split(folder: Path, path: str, rows: Iterable[Mapping[str, Any]], hub: Hub) -> None:
    """Write the rows of a split to `path`, or to one file for each value of a field in it."""
    files: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        files[path.format_map(row)].append(hub.convert(row))
    for name, lines in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, (_csv if file.suffix == ".csv" else _jsonl)(lines).encode())


def _rows(hub: Hub, split: str) -> Iterable[Mapping[str, Any]]:
    try:
        from datasets import load_dataset
    except ImportError:
        raise EvalDataError(
            "the package datasets is not installed; `pip install 'sgc[eval]'`"
        ) from None
    try:
        rows: Iterable[Mapping[str, Any]] = load_dataset(hub.dataset, hub.config, split=split)
    except (OSError, ValueError, RuntimeError) as error:
        raise EvalDataError(
            f"{hub.dataset} cannot be fetched: {error}; give its files by --data DIR"
        ) from error
    return rows


def _jsonl(lines: Iterable[Any]) -> str:
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def _csv(lines: Iterable[Any]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(lines)
    return text.getvalue()
