"""A file of tensors that is mapped into memory: JSON head, then every tensor at a cache line.

Layout: magic, length of the head (8 bytes), SHA-256 of the head, the head, padding, data. The head
has the total length, a sum of the data (which sees zeroed or changed pages at the speed of
memory), and each tensor's type, shape and place.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

MAGIC = b"sgc-tensors-1\n\0\0"
WRITING = ".writing-"  # begin of the names of files that are not complete yet
_LINE = 64
_FRONT = len(MAGIC) + 8 + 32


class DamagedFile(Exception):
    """The file is no complete file of tensors."""


def write_tensors(place: Path, tensors: Mapping[str, torch.Tensor], facts: Any) -> None:
    """Write beside `place`, then move there: no reader sees half of it, and the last of several
    writers wins. `facts` are JSON data. Raises OSError."""
    entries, end = {}, 0
    for name, tensor in tensors.items():
        num_bytes = tensor.numel() * tensor.element_size()
        entries[name] = [str(tensor.dtype).removeprefix("torch."), list(tensor.shape), end]
        end += -(-num_bytes // _LINE) * _LINE
    total = sum(_sum(_bytes(tensor)) for tensor in tensors.values())
    head = json.dumps(
        {"data_bytes": end, "sum": _wrapped(total), "tensors": entries, "facts": facts}
    ).encode()
    descriptor, beside = tempfile.mkstemp(prefix=WRITING, dir=place.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(MAGIC + struct.pack("<Q", len(head)) + hashlib.sha256(head).digest() + head)
            file.write(bytes(-file.tell() % _LINE))
            for tensor in tensors.values():
                data = _bytes(tensor)
                file.write(data.numpy().data)
                file.write(bytes(-data.numel() % _LINE))
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, place)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise


def read_tensors(place: Path) -> tuple[dict[str, torch.Tensor], Any]:
    """The tensors, which lie in the file until they are read, and the facts.

    Raises:
        OSError: there is no such file, or it cannot be read.
        DamagedFile: it is not what was written.
    """
    with place.open("rb") as file:
        front = file.read(_FRONT)
        if len(front) < _FRONT or not front.startswith(MAGIC):
            raise DamagedFile("no file of tensors")
        (length,) = struct.unpack_from("<Q", front, len(MAGIC))
        size = os.fstat(file.fileno()).st_size
        text = file.read(min(length, size))
        if hashlib.sha256(text).digest() != front[-32:]:
            raise DamagedFile("its head has changed")
        head = json.loads(text)
        start = -(-(_FRONT + length) // _LINE) * _LINE
        if size != start + head["data_bytes"]:
            raise DamagedFile("its length has changed")
        # Copy on write: torch takes no memory that may not be written.
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    if head["data_bytes"]:
        whole = torch.frombuffer(data, dtype=torch.uint8, offset=start)
        if _sum(whole) != head["sum"]:
            raise DamagedFile("its data have changed")
    return {name: _tensor(data, start, *e) for name, e in head["tensors"].items()}, head["facts"]


def _tensor(data: mmap.mmap, start: int, kind: str, shape: list[int], at: int) -> torch.Tensor:
    dtype, count = getattr(torch, kind), torch.Size(shape).numel()
    if not count:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(data, dtype=dtype, count=count, offset=start + at).view(shape)


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().view(-1).view(torch.uint8)


def _sum(data: torch.Tensor) -> int:
    """The bytes as little-endian numbers of 64 bits, zeros behind the last, summed modulo 2^64."""
    whole = data.numel() // 8 * 8
    tail = bytes(data[whole:].tolist()).ljust(8, b"\0")
    total = int(data[:whole].view(torch.int64).sum()) if whole else 0
    return _wrapped(total + struct.unpack("<q", tail)[0])


def _wrapped(number: int) -> int:
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
