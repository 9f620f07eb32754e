"""What the user decides about a local engine. No torch here, so that options are cheap to check."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sgc_ir.errors import BackendError

ORDERS = ("lpm", "dfs", "fcfs")
SEAMS = ("canonical", "splice")
WEIGHTS = ("auto", "dense", "int4", "int8")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)i?b?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Only `dtype` and `weights` (rounding) and `seam` change results.

    Attributes:
        dtype: `float32`, `bfloat16` or `float16`; None: what the machine is fast in.
        device: a torch device.
        weights: the form of the weights in bfloat16 on a CPU. `auto`: integers of the file
            itself, if it holds such, else dense; `dense`: numbers of the format; `int8`, `int4`:
            round what the file holds in more bits to groups of 32 with a scale (the output head
            never below 8 bits). Where both forms of a weight are kept, because the machine is
            faster with the dense one for many rows (CPUs with AMX), a result depends by rounding
            on how many tokens are computed together. float32 is always dense: the reference.
        kv_tokens: slots of the KV pool; or
        kv_memory: its size in bytes, or as text such as `2GB`. Neither: a share of what is free.
        seam: what happens where text follows generated ids: `canonical` encodes the last few
            anew together with the text, `splice` never changes them.
        cache: keep the KV of prefixes for later calls.
        max_running: sequences that are computed at once.
        prefill_tokens: prompt tokens that one step computes at most.
        reserve: see `EngineConfig`.
        order: which waiting call is served next: `lpm` (longest cached prefix first), `dfs`
            (those that share a prefix together) or `fcfs` (first come, first served).
        priorities: finish program instances that have begun before new ones begin.
        claims: see `EngineConfig`; None: 1 on a CPU, a half elsewhere.
        jump: compute text that a constraint forces in one pass; without it the same ids take a
            pass each.
    """

    dtype: str | None = None
    device: str = "cpu"
    weights: str = "auto"
    kv_tokens: int | None = None
    kv_memory: int | str | None = None
    seam: str = "canonical"
    cache: bool = True
    max_running: int = 128
    prefill_tokens: int = 1024
    reserve: float = 0.5
    order: str = "lpm"
    priorities: bool = True
    claims: float | None = None
    jump: bool = True

    def __post_init__(self) -> None:
        if self.kv_tokens is not None and self.kv_memory is not None:
            raise BackendError("kv_tokens and kv_memory together; give one of them")
        if self.kv_memory is not None:
            parse_size(self.kv_memory)
        if self.seam not in SEAMS:
            raise BackendError(f"seam={self.seam!r}: give one of {', '.join(SEAMS)}")
        if self.weights not in WEIGHTS:
            raise BackendError(f"weights={self.weights!r}: give one of {', '.join(WEIGHTS)}")
        if self.weights in ("int4", "int8") and self.dtype in ("float32", "float16"):
            raise BackendError(
                f"weights={self.weights} with dtype={self.dtype}: integer weights need bfloat16; "
                "leave out one of them"
            )
        if self.order not in ORDERS:
            raise BackendError(f"order={self.order!r}: give one of {', '.join(ORDERS)}")
        for name in ("kv_tokens", "max_running", "prefill_tokens"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int) and value >= 1):
                raise BackendError(f"{name}={value!r}: give a whole number, at least 1")
        claims = 1.0 if self.claims is None else self.claims
        for name, share in (("reserve", self.reserve), ("claims", claims)):
            if not (isinstance(share, int | float) and 0.0 <= share <= 1.0):
                raise BackendError(f"{name}={share!r}: give a number from 0 to 1")


def parse_size(size: int | str) -> int:
    """Bytes of a plain number or of `2GB`, `512MiB`; K, M, G and T are powers of 1024.

    Raises:
        BackendError: it is no size.
    """
    if isinstance(size, int):
        return size
    found = _SIZE.fullmatch(size.strip()) if isinstance(size, str) else None
    if found is None or len(found[1]) > 30:
        raise BackendError(
            f"kv_memory={repr(size)[:40]}: give a number of bytes or a size such as 2GB"
        )
    return int(float(found[1]) * _UNITS[found[2].lower()])
