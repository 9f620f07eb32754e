"""How large the KV pool is."""

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
    device: torch.device,
    kv_tokens: int | None = None,
    kv_memory: int | str | None = None,
) -> int:
    """Number of slots: `kv_tokens`, or what fits into `kv_memory` (bytes, or a text such as
    `2GB`), or into a quarter of the free memory (on a CPU at most 4 GiB).

    Raises:
        BackendError: room for no token at all.
    """
    if kv_tokens is not None:
        return kv_tokens
    size = parse_size(kv_memory) if kv_memory is not None else default_bytes(device)
    each = bytes_per_token(config.num_layers, config.num_kv_heads, config.head_dim, dtype)
    if size < each:
        raise BackendError(f"kv_memory of {size} bytes holds no token (one takes {each} bytes)")
    return size // each


def default_bytes(device: torch.device) -> int:
    """What the pool takes when nobody says."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free // DEFAULT_SHARE
    return min(_free_bytes() // DEFAULT_SHARE, MAX_DEFAULT_BYTES)


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
