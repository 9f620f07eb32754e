"""A copy of a model's weights as the kernels read them, kept in a directory for later processes."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch

from sgc_kernels.weights.grouped import PackedWeight
from sgc_kernels.weights.grouped_ir import Layout
from sgc_runtime.model.converted_file import WRITING, DamagedFile, read_tensors, write_tensors

_LOG = logging.getLogger("sgc")

LEAST_BYTES = 16 << 20  # smaller models are converted in no time
MOST_BYTES = 4 << 30  # all copies together
_SAMPLE = 1 << 16  # bytes of either end of a model file that its key depends on
_ABANDONED = 3600  # seconds after which a file that is being written is left over
# What the copy's content depends on beside the model: these files' text is part of its name.
_SOURCES = ("gguf_integers.py", "weights_gguf.py", "products.py", "converted.py")


class Converted:
    """Weights by name: out of the copy, if there is one for this file and option, else made.

    A copy is found by path, size, time and both ends of the model file, the option and the code
    that converts. Whatever is wrong with it, or with writing it, weights are made anew.

    Args:
        folder: holds the copies; None: keep none.
        option: whatever besides the file the result depends on.
        most_bytes: size of all copies together; the least recently used go first.
    """

    def __init__(
        self,
        folder: Path | None,
        model: Path,
        option: str,
        least_bytes: int = LEAST_BYTES,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._place: Path | None = None
        self._least, self._most = least_bytes, most_bytes
        self._lock = threading.Lock()
        self._made: dict[str, torch.Tensor] = {}
        self._layouts: dict[str, list[int] | None] = {}
        self._found: dict[str, torch.Tensor] | None = None
        with contextlib.suppress(OSError):
            if folder is not None and model.is_file() and model.stat().st_size >= least_bytes:
                self._place = folder / f"{model.stem}-{_key(model, option)}.tensors"
                self._read(self._place)

    @property
    def found(self) -> bool:
        """Whether the weights come out of a copy."""
        return self._found is not None

    def packed(self, name: str, make: Callable[[], PackedWeight | None]) -> PackedWeight | None:
        """A packed weight, or None where `make` gives None: the product is dense."""
        if self._found is not None and name in self._layouts:
            layout = self._layouts[name]
            return None if layout is None else PackedWeight(_layout(layout), self._found[name])
        weight = make()
        if self._place is not None:
            with self._lock:
                self._layouts[name] = None if weight is None else _numbers(weight.layout)
                if weight is not None:
                    self._made[name] = weight.data
        return weight

    def tensor(self, name: str, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        """A tensor as it is."""
        if self._found is not None and name in self._found:
            return self._found[name]
        tensor = make()
        if self._place is not None:
            with self._lock:
                self._made[name] = tensor
        return tensor

    def save(self) -> None:
        """Keep what was made, if it was not found. A directory that cannot be written or is too
        small only means that the next process converts again."""
        size = sum(tensor.numel() * tensor.element_size() for tensor in self._made.values())
        if self._place is None or self.found or not self._least <= size <= self._most:
            return
        folder = self._place.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _make_room(folder, self._most - size)
            if shutil.disk_usage(folder).free > 2 * size:  # leave as much as is taken
                write_tensors(self._place, self._made, self._layouts)
            else:
                _LOG.warning("%s is nearly full: each start converts the weights anew", folder)
        except OSError as error:
            _LOG.warning("cannot keep converted weights, each start makes them anew: %s", error)
        self._made = {}

    def _read(self, place: Path) -> None:
        try:
            self._found, self._layouts = read_tensors(place)
        except DamagedFile:
            place.unlink(missing_ok=True)
            return
        with contextlib.suppress(OSError):  # used now: the last to be dropped
            os.utime(place)
            _make_room(place.parent, self._most)


def _key(model: Path, option: str) -> str:
    from sgc_kernels.weights import grouped, grouped_ir

    facts = model.stat()
    digest = hashlib.sha256(f"{facts.st_size} {facts.st_mtime_ns} {option}".encode())
    digest.update(os.fsencode(model.resolve()))
    with model.open("rb") as file:
        digest.update(file.read(_SAMPLE))
        file.seek(max(0, facts.st_size - _SAMPLE))
        digest.update(file.read())
    own = [Path(__file__).parent / name for name in _SOURCES]
    for source in (*own, Path(grouped.__file__), Path(grouped_ir.__file__)):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:32]


def _make_room(folder: Path, most_bytes: int) -> None:
    """Drop what is abandoned, and the least recently used copies beyond `most_bytes`."""
    for file in folder.glob(f"{WRITING}*"):
        if time.time() - file.stat().st_mtime > _ABANDONED:
            file.unlink(missing_ok=True)
    copies = [(file.stat(), file) for file in folder.glob("*.tensors")]
    for facts, file in sorted(copies, key=lambda copy: -copy[0].st_mtime_ns):
        most_bytes -= facts.st_size
        if most_bytes < 0:
            file.unlink(missing_ok=True)


def _numbers(layout: Layout) -> list[int]:
    return [layout.bits, int(layout.has_min), layout.scale_bytes]


def _layout(numbers: list[int]) -> Layout:
    bits, has_min, scale_bytes = numbers
    return Layout(bits, bool(has_min), scale_bytes)
