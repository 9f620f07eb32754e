"""Masks on disk: one file for each automaton and tokenizer."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import logging
import os
import shutil
import sys
import tempfile
import time
import unicodedata
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from sgc_kernels.masks.trie_table import Int32

_LOG = logging.getLogger("sgc")
_MAGIC = b"sgc masks 1\n"
_NAME = 16  # bytes of a state's signature
_UNFINISHED = "tmp"  # how the folders begin in which files are written
_WRITING_S = 3600.0  # longer than it takes to write one


class MaskFiles:
    """A folder of files, the oldest of which are deleted beyond a number of bytes.

    A file is `_MAGIC`, the SHA-256 of what follows, then signature (16 bytes), length (4 bytes)
    and the deflated mask of each state.

    Args:
        folder: made when something is written.
        budget_bytes: of all files together.
    """

    def __init__(self, folder: Path, budget_bytes: int = 256 << 20) -> None:
        self._folder = folder
        self._budget = budget_bytes
        self._drop_unfinished()

    def path(self, automaton: bytes, tokenizer: bytes) -> Path:
        """The file of two digests, for this version of the code and of Python."""
        name = hashlib.blake2b(automaton, digest_size=16, key=_code_digest()).hexdigest()
        return self._folder / f"{name}-{tokenizer.hex()}.masks"

    def read(self, file: Path) -> dict[bytes, bytes]:
        """Deflated masks by signature; none where the file is damaged or does not exist."""
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            _LOG.debug("masks are made anew: %s cannot be read (%s)", file, error)
            return {}
        head = len(_MAGIC)
        digest, rest = data[head : head + 32], data[head + 32 :]
        if data[:head] != _MAGIC:
            _LOG.debug("masks are made anew: %s is no file of masks of this version", file)
            return {}
        if hashlib.sha256(rest).digest() != digest:
            _LOG.debug("masks are made anew: %s is damaged, its checksum differs", file)
            return {}
        return dict(_entries(rest))

    def write(self, file: Path, masks: Mapping[bytes, bytes]) -> bool:
        """Whole or not at all. A folder that cannot be written keeps nothing.

        Returns:
            Whether it was written.
        """
        rest = b"".join(
            name + len(packed).to_bytes(4, "little") + packed for name, packed in masks.items()
        )
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=file.parent) as beside:
                whole = Path(beside) / "masks"
                whole.write_bytes(_MAGIC + hashlib.sha256(rest).digest() + rest)
                os.replace(whole, file)
        except OSError as error:
            _LOG.debug("masks are not kept: %s cannot be written (%s)", file, error)
            return False
        self._bound()
        return True

    def _drop_unfinished(self) -> None:
        """Delete what processes left behind that were ended while they wrote."""
        oldest = time.time() - _WRITING_S
        for folder in self._folder.glob(f"{_UNFINISHED}*"):
            with contextlib.suppress(OSError):
                if folder.stat().st_mtime < oldest:
                    shutil.rmtree(folder)

    def _bound(self) -> None:
        """Delete the files that were written longest ago, down to the budget."""
        found = []
        for file in self._folder.glob("*.masks"):
            with contextlib.suppress(OSError):  # another process may have deleted it
                state = file.stat()
                found.append((state.st_mtime_ns, state.st_size, file))
        total = sum(size for _, size, _ in found)
        for _, size, file in sorted(found):
            if total <= self._budget:
                break
            with contextlib.suppress(OSError):
                file.unlink()
            total -= size


@functools.cache
def _code_digest() -> bytes:
    """Changes with what makes automata, their signatures and masks: the code, and Python, whose
    reading of patterns and whose Unicode they follow."""
    python = f"{sys.version_info[:2]} {unicodedata.unidata_version}"
    found = hashlib.blake2b(python.encode(), digest_size=16)
    for package in ("sgc_ir.automata", "sgc_kernels.masks", "sgc_runtime.constraints"):
        spec = importlib.util.find_spec(package)
        assert spec is not None
        for folder in spec.submodule_search_locations or ():
            for file in sorted(Path(folder).rglob("*.py")):
                found.update(file.read_bytes())
    return found.digest()


def _entries(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Signature and deflated mask of each state."""
    at = 0
    while at < len(data):
        name = data[at : at + _NAME]
        length = int.from_bytes(data[at + _NAME : at + _NAME + 4], "little")
        at += _NAME + 4 + length
        yield name, data[at - length : at]


def pack(words: Int32) -> bytes:
    """A mask, deflated."""
    return zlib.compress(words.tobytes(), 1)


def unpack(packed: bytes) -> Int32:
    """The mask that was packed, read-only."""
    return np.frombuffer(zlib.decompress(packed), np.int32)
