"""What a gen tells besides its text: log-probabilities, and how its constraint went."""

from __future__ import annotations

import logging
import math
import re
from typing import Any

from sgc_runtime.cache.radix_tree import Ids
from sgc_runtime.engine.assemble import LoadedEngine
from sgc_runtime.engine.request import Request
from sgc_runtime.executor.backend import Call
from sgc_runtime.sampling.row import TokenLogprobs

# Below this mean share of the model's probability (geometric, over the ids sampled) a constraint
# is said to fight the model: where a prompt asks for the form, nearly all of it is allowed.
FIGHTS_BELOW = 0.01
_MOST_WARNED = 10_000  # nodes that are remembered

_LOG = logging.getLogger("sgc")
_INDEX = re.compile(r"\[\d+\]")


def logprob_meta(loaded: LoadedEngine, request: Request, kept: Ids) -> dict[str, Any]:
    """`logprobs`: one entry a kept token; `top_logprobs`: for each the likeliest ids."""
    assert request.row is not None
    assert request.watcher is not None
    params = request.row.params
    meta: dict[str, Any] = {}
    first = request.watcher.num_healed  # tokens of the prompt's own text
    found = list(zip(kept[first:].tolist(), request.logprobs[first:], strict=False))
    if params.logprobs:
        meta["logprobs"] = [_chosen(loaded, token, x) for token, x in found if x is not None]
    if params.top_logprobs:
        meta["top_logprobs"] = [_top_entries(loaded, x) for _, x in found if x is not None]
    return meta


def _chosen(loaded: LoadedEngine, token: int, found: TokenLogprobs) -> dict[str, Any]:
    entry = _entry(loaded, token, found.logprob)
    return {**entry, "forced": True} if found.forced else entry


def _top_entries(loaded: LoadedEngine, logprobs: TokenLogprobs) -> list[dict[str, Any]]:
    return [_entry(loaded, token, value) for token, value in logprobs.top]


def _entry(loaded: LoadedEngine, token: int, logprob: float) -> dict[str, Any]:
    text = loaded.vocabulary.token_bytes(token).decode("utf-8", errors="replace")
    return {"id": token, "token": text, "logprob": logprob}


def warn_of_fight(loaded: LoadedEngine, call: Call, request: Request) -> None:
    """Say once a node that the model would hardly have said what its constraint allows."""
    row = request.row
    assert row is not None
    if not row.num_masked or row.allowed_mass >= row.num_masked * math.log(FIGHTS_BELOW):
        return
    node = _INDEX.sub("[*]", call.node)
    if node in loaded.warned or len(loaded.warned) >= _MOST_WARNED:
        return
    loaded.warned.add(node)
    _LOG.warning(
        "node %s: its %s allows on average only %.2g %% of what the model would say (over %d "
        "sampled tokens); ask in the prompt for the form that is wanted",
        node,
        call.params.constraint,
        100 * math.exp(row.allowed_mass / row.num_masked),
        row.num_masked,
    )
