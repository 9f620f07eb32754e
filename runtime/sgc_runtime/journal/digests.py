"""Digests of what a node was asked: equal in every process for equal calls, tools and rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgpack

from sgc_ir.params import SamplingParams

DIGEST_BYTES = 16


def call_digest(
    params: SamplingParams, prompt: str, seeds: Sequence[int], end_of_turn: bool
) -> bytes:
    """Digest of a model call: kind, prompt, parameters and seeds."""
    return digest([params.kind, params.to_dict(), prompt, seeds, end_of_turn])


def tool_digest(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
    """Digest of a tool call; of arguments that are no plain data only the type counts."""
    return digest([name, list(args), dict(kwargs)])


def digest(value: Any) -> bytes:
    """Digest of plain data; of anything else in it only the type counts."""
    data = msgpack.packb(value, default=_plain, unicode_errors="surrogatepass")
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, int):  # one that msgpack has no room for
        return msgpack.ExtType(1, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))
    return msgpack.ExtType(2, f"{type(value).__module__}.{type(value).__qualname__}".encode())
