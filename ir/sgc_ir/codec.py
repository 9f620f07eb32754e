"""The artefact: a program as bytes, msgpack behind magic number, format version and content hash.

    offset  size  field
    0       8     magic
    8       2     format version, big-endian
    10      8     length of the payload, big-endian
    18      32    blake2b-256 of format version and payload
    50      ...   payload: msgpack, see `sgc_ir.codec_program`

Equal programs give equal bytes (equal in type, order of dict entries and sign of zero; the order
of a node's attributes, of graphs and of tools does not count). Reading runs no code, and allocates
at most `MEMORY_FACTOR` times the size of the file plus `MEMORY_BASE`. When it has read, the whole
program has been checked: most by `sgc_ir.codec_proof`, which needs no nodes, the others by the law
itself. The nodes of a graph are made when the graph is first asked for; that cannot fail.
"""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import msgpack

from sgc_ir.codec_program import pack_program, unpack_first_format, unpack_program
from sgc_ir.codec_proof import is_proven
from sgc_ir.codec_scan import scan
from sgc_ir.errors import ArtifactError, CompileError
from sgc_ir.graph import Program
from sgc_ir.limits import MAX_ARTIFACT_BYTES
from sgc_ir.verify import verify

MAGIC = b"\x89sgc\r\n\x1a\n"  # high bit and line ends: a transfer as text damages it visibly
FORMAT_VERSION = 3  # 1, 2: node by node, 1 without UNSET and tokens of Merge; read as they are
_FIRST_SHAPES = 3
MEMORY_FACTOR = 150
MEMORY_BASE = 2**20  # bytes
_HEADER = struct.Struct(">8sHQ32s")


def encode(program: Program) -> bytes:
    """The artefact of `program`. Raises ArtifactError for a value that it cannot hold."""
    payload: bytes = msgpack.packb(pack_program(program), unicode_errors="surrogatepass")
    digest = _digest(FORMAT_VERSION, payload)
    return _HEADER.pack(MAGIC, FORMAT_VERSION, len(payload), digest) + payload


def decode(data: bytes, max_bytes: int = MAX_ARTIFACT_BYTES) -> Program:
    """The program in `data`, verified; raises ArtifactError for anything else.

    Patterns, schemas and grammars are not compiled here: a wrong one fails where it is used.
    """
    version, payload = _payload(data, max_bytes)
    scan(payload)
    try:
        tree = msgpack.unpackb(payload, unicode_errors="surrogatepass", strict_map_key=False)
    except (ValueError, msgpack.UnpackException) as error:
        raise ArtifactError(f"damaged artefact: {error}; compile the program again") from error
    program = (unpack_program if version >= _FIRST_SHAPES else unpack_first_format)(tree)
    del tree
    try:
        if is_proven(program):
            return program
        verify(program, syntax=False)
    except CompileError as error:
        raise ArtifactError(f"artefact holds an invalid program: {error}") from error
    return program


def read_artifact(path: Path | str, max_bytes: int = MAX_ARTIFACT_BYTES) -> Program:
    """The program in the file `path`. Raises ArtifactError, also for an unreadable file."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read: {error.strerror or error}") from error
    try:
        return decode(data, max_bytes)
    except ArtifactError as error:
        raise ArtifactError(f"{path}: {error}") from error


def _digest(version: int, payload: bytes) -> bytes:
    return hashlib.blake2b(struct.pack(">H", version) + payload, digest_size=32).digest()


def _payload(data: bytes, max_bytes: int) -> tuple[int, memoryview]:
    if len(data) > max_bytes:
        raise ArtifactError(f"larger than {max_bytes} bytes; raise the limit if you trust it")
    if not data.startswith(MAGIC[: max(1, len(data))]):
        hint = " (it looks like the text form)" if data[:8] == b"program " else ""
        raise ArtifactError(f"not an sgc artefact{hint}; write one with `sgc compile`")
    if len(data) < _HEADER.size:
        raise ArtifactError(f"truncated artefact: {len(data)} bytes, less than its header")
    _magic, version, length, digest = _HEADER.unpack_from(data)
    if version > FORMAT_VERSION:
        raise ArtifactError(
            f"artefact of format version {version}, this sgc reads up to {FORMAT_VERSION}; "
            "update sgc, or compile the program again with this one"
        )
    if version < 1:
        raise ArtifactError(f"artefact of unknown format version {version}")
    payload = memoryview(data)[_HEADER.size :]
    if len(payload) < length:
        raise ArtifactError(f"truncated artefact: {len(payload)} of {length} payload bytes")
    if len(payload) > length:
        raise ArtifactError(f"{len(payload) - length} bytes follow the end of the artefact")
    if _digest(version, bytes(payload)) != digest:
        raise ArtifactError("damaged artefact: its content hash differs; compile the program again")
    return version, payload
