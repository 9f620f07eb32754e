"""How large the KV pool on a CPU is; on a GPU `budgets` says so."""

from __future__ import annotations

import os
import re
from pathlib import Path

import torch

from sgc_ir.errors import BackendError
from sgc_runtime.cache.kv_pool import bytes_per_token
from sgc_runtime.engine.options import parse_size
from sgc_runtime.model.config import ModelConfig

DEFAULT_SHARE = 4  # a quarter of the memory that is free when the model has been loaded
MAX_DEFAULT_BYTES = 4 << 30


def pool_tokens(
    config: ModelConfig,
    dtype: torch.dtype,
    kv_tokens: int | None = None,
    kv_memory: int | str | None = None,
) -> int:
    """Number of slots: `kv_tokens`, or what fits into `kv_memory` (bytes, or a text such as
    `2GB`), or into a quarter of the free memory, at most 4 GiB.

    Raises:
        BackendError: room for no token at all, or more than there is memory.
    """
    each = bytes_per_token(config.num_layers, config.num_kv_heads, config.head_dim, dtype)
    if kv_tokens is not None:
        _check_fits(kv_tokens * each, f"kv_tokens={kv_tokens}")
        return kv_tokens
    size = parse_size(kv_memory) if kv_memory is not None else default_bytes()
    _check_fits(size, f"kv_memory={kv_memory}")
    if size < each:
        raise BackendError(f"kv_memory of {size} bytes holds no token (one takes {each} bytes)")
    return size // each


def _check_fits(size: int, option: str) -> None:
    """The pool takes its memory page by page: too large a one would end the process late, so what
    the machine cannot hold is refused at once."""
    most = _limit_bytes()
    if size > most:
        raise BackendError(
            f"{option}: a KV pool of {size >> 20} MiB is more than the {most >> 20} MiB that "
            "this machine has; give less"
        )


def default_bytes() -> int:
    """What the pool takes when nobody says."""
    return min(_free_bytes() // DEFAULT_SHARE, MAX_DEFAULT_BYTES)


def _limit_bytes() -> int:
    """Memory of the machine or of its container, used or not."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    text = limit.read_text().strip() if limit.is_file() else ""
    return min(whole, int(text)) if text.isdigit() else whole


def _free_bytes() -> int:
    """Memory that this process may still take: of the machine, and of its container."""
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    meminfo = Path("/proc/meminfo")
    if meminfo.is_file():
        found = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo.read_text(), re.MULTILINE)
        free = int(found[1]) * 1024 if found else free
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.is_file() and used.is_file() and (text := limit.read_text().strip()).isdigit():
        free = min(free, max(0, int(text) - int(used.read_text())))
    return free
