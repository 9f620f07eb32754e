"""Reading GGUF files: header, metadata and where the tensors lie, without touching their data."""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sgc_ir.errors import ModelError

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_ALIGNMENT = 32
_MAX_DIMS = 4
_MAX_DEPTH = 4  # arrays of arrays
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?"}
_SCALARS |= {10: "<Q", 11: "<q", 12: "<d"}


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """A tensor's place: `shape` has the slowest axis first; `kind` is ggml's type number."""

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int  # bytes from the begin of the file


@dataclass(frozen=True, slots=True)
class GgufFile:
    """An opened GGUF file. `metadata` holds plain Python values; string arrays are lists."""

    path: Path
    metadata: dict[str, Any]
    tensors: dict[str, GgufTensor]
    data: mmap.mmap

    def raw(self, tensor: GgufTensor, num_bytes: int) -> npt.NDArray[np.uint8]:
        """The stored bytes of `tensor`; a view of the file, read-only.

        Raises:
            ModelError: the file ends before them.
        """
        if tensor.offset + num_bytes > len(self.data):
            raise _damaged(self.path, f"tensor {tensor.name} lies beyond its end")
        return np.frombuffer(self.data, np.uint8, num_bytes, tensor.offset)


def open_gguf(path: Path) -> GgufFile:
    """Read everything but the tensors' data; the data is mapped, not read.

    Raises:
        ModelError: no such file, not a GGUF file, an unknown version, or damaged.
    """
    try:
        with path.open("rb") as file:
            head = file.read(len(_MAGIC))
            if head != _MAGIC:
                raise ModelError(f"{path} is not a GGUF file: give a .gguf file or a model folder")
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise ModelError(f"cannot read {path} ({error.strerror}): check the path") from error
    try:
        return _Reader(path, data).read()
    except (struct.error, UnicodeDecodeError, IndexError) as error:
        raise _damaged(path, "its header breaks off") from error


def _damaged(path: Path, what: str) -> ModelError:
    return ModelError(f"{path} is damaged or incomplete ({what}): fetch it again")


class _Reader:
    """Walks through the header; every read is checked against the end of the file."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._path = path
        self._data = data
        self._at = len(_MAGIC)

    def read(self) -> GgufFile:
        version = self._number("<I")
        if version not in _VERSIONS:
            raise ModelError(
                f"{self._path} has GGUF version {version}; known are 2 and 3 (little-endian): "
                "convert the model anew"
            )
        num_tensors, num_fields = self._number("<Q"), self._number("<Q")
        metadata: dict[str, Any] = {}
        for _ in range(num_fields):
            key = self._string()
            metadata[key] = self._value(self._number("<I"))
        places = [self._tensor() for _ in range(num_tensors)]
        alignment = metadata.get("general.alignment", _ALIGNMENT)
        if not isinstance(alignment, int) or alignment <= 0:
            raise _damaged(self._path, f"alignment {alignment!r}")
        base = -(-self._at // alignment) * alignment
        tensors = {
            name: GgufTensor(name, shape, kind, base + offset)
            for name, shape, kind, offset in places
        }
        return GgufFile(self._path, metadata, tensors, self._data)

    def _number(self, form: str) -> Any:
        (value,) = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return value

    def _string(self) -> str:
        length = self._number("<Q")
        self._require(length)
        text = self._data[self._at : self._at + length]
        self._at += length
        return text.decode("utf-8")

    def _require(self, num_bytes: int) -> None:
        if num_bytes > len(self._data) - self._at:
            raise _damaged(self._path, "its header breaks off")

    def _value(self, kind: int, depth: int = 0) -> Any:
        if kind in _SCALARS:
            return self._number(_SCALARS[kind])
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY and depth < _MAX_DEPTH:
            return self._array(depth + 1)
        raise _damaged(self._path, f"value type {kind} in its header")

    def _array(self, depth: int) -> list[Any]:
        kind, count = self._number("<I"), self._number("<Q")
        if kind in _SCALARS:
            item = np.dtype(_SCALARS[kind])
            self._require(count * item.itemsize)
            values: list[Any] = np.frombuffer(self._data, item, count, self._at).tolist()
            self._at += count * item.itemsize
            return values
        self._require(count)  # an item takes a byte at least
        if kind == _STRING:
            return self._strings(count)
        return [self._value(kind, depth) for _ in range(count)]

    def _strings(self, count: int) -> list[Any]:
        """`_string` many times, with nothing looked up in the loop: vocabularies are long."""
        length_at = struct.Struct("<Q").unpack_from
        data, at, end = self._data, self._at, len(self._data)
        texts: list[Any] = []
        for _ in range(count):
            (length,) = length_at(data, at)
            at += 8
            if length > end - at:
                raise _damaged(self._path, "its header breaks off")
            texts.append(data[at : at + length].decode("utf-8"))
            at += length
        self._at = at
        return texts

    def _tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        name, num_dims = self._string(), self._number("<I")
        if num_dims > _MAX_DIMS:
            raise _damaged(self._path, f"tensor {name} has {num_dims} dimensions")
        sizes = [self._number("<Q") for _ in range(num_dims)]
        return name, tuple(reversed(sizes)), self._number("<I"), self._number("<Q")
