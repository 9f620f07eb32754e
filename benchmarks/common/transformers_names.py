"""Arguments of `transformers` that have other names in other versions (5.17 and 5.24 are tried)."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from transformers import ContinuousBatchingConfig

from benchmarks.common.peer import PeerMissing

_CACHE = ("cache", "past_key_values")
_PAGE = ("page_size", "block_size")  # a newer version keeps the older name as an alias


def cache_argument(model: Any) -> str:
    """What the KV cache is called by a model's forward and by `generate`."""
    return _known(_CACHE, model.forward)


def continuous_config(page: int, **options: Any) -> Any:
    """A `ContinuousBatchingConfig` with pages of `page` tokens that never leaves sdpa by itself."""
    known = inspect.signature(ContinuousBatchingConfig).parameters
    options[_known(_PAGE, ContinuousBatchingConfig)] = page
    if "auto_switch_to_flash" in known:  # versions without it do not switch
        options["auto_switch_to_flash"] = False
    return ContinuousBatchingConfig(**options)


def _known(names: Iterable[str], function: Any) -> str:
    parameters = inspect.signature(function).parameters
    found = next((name for name in names if name in parameters), None)
    if found is None:
        raise PeerMissing(
            f"this version of transformers has none of {', '.join(names)} in "
            f"{function.__qualname__}; 5.17 and 5.24 are known to work"
        )
    return found
