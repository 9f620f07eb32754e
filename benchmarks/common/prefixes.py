"""Prefixes that prompts have in common."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sgc_runtime.cache.radix_tree import common_prefix

_MIN_SHARED = 16  # tokens that are worth a copy


def shared_prefix(prompts: Sequence[Sequence[int]]) -> int:
    """Tokens that all prompts begin with, less than any whole prompt; 0 when too few."""
    if len(prompts) < 2:
        return 0
    first = np.array(prompts[0], np.int32)
    common = min(common_prefix(first, np.array(other, np.int32)) for other in prompts[1:])
    common = min(common, min(map(len, prompts)) - 1)
    return common if common >= _MIN_SHARED else 0
