"""The size of an engine's KV pool, where the engine tells it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# SGLang: `max_total_num_tokens=1234567, ...`; vLLM: `GPU KV cache size: 1,234,567 tokens`.
_PRINTED = re.compile(r"max_total_num_tokens=(\d+)|KV cache size: ([\d,]+) tokens")


def kv_pool_tokens(settings: Mapping[str, Any], printed: str) -> int | None:
    """Tokens of the pool by the budgets in `settings` (ours), or by the last line that names
    them in what the engine printed; None when neither does."""
    if "budgets" in settings:
        return int(settings["budgets"]["kv_tokens"])
    found = [a or b for a, b in _PRINTED.findall(printed)]
    return int(found[-1].replace(",", "")) if found else None
