"""What gens say in virtual time: recorded texts, or words that are a function of the call."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from hashlib import blake2b
from itertools import islice
from pathlib import Path

import numpy as np

from sgc_runtime.cache.radix_tree import Ids
from sgc_runtime.engine.request import Request
from sgc_runtime.engine.vocabulary import Vocabulary
from sgc_runtime.executor.seeds import fixed_seed, node_seed

_WORDS = (
    "first take all numbers then add them step by step because each part has a value that we know "
    "so the answer of this is small but it may be more when the other side moves and we look again"
).split()

Reply = Callable[[str, random.Random], str]  # a prompt, and randomness of the call's own


class WordScript:
    """Words that depend on prompt and seed (greedy gens: on the prompt alone).

    Args:
        full: a gen uses all its tokens; else it ends by itself after 20 to 100 % of them.
        reply: says what comes instead, by the prompt's last `_SEEN` ids, or nothing ("").
        recorded: texts by seed, which come first of all.
    """

    _SEEN = 200

    def __init__(
        self,
        vocabulary: Vocabulary,
        full: bool = True,
        reply: Reply | None = None,
        recorded: Mapping[int, str] | None = None,
    ) -> None:
        self._vocabulary, self._full, self._reply = vocabulary, full, reply
        self._recorded = recorded or {}
        self._end = min(vocabulary.eos_ids)
        self._words = [vocabulary.encode(" " + word, start=False) for word in _WORDS]

    def __call__(self, request: Request) -> Ids:
        assert request.row is not None
        rng = random.Random(_digest(request))
        most = request.row.params.max_tokens
        known = self._recorded.get(request.row.seed)
        if known is None and self._reply is not None:
            known = self._reply(self._text(request.prompt[-self._SEEN :]), rng) or None
        if known is not None:
            ids = self._vocabulary.encode(known, start=False)[:most]
        else:
            length = most if self._full else max(1, int(most * rng.uniform(0.2, 1.0)))
            words = iter(lambda: rng.choice(self._words), None)
            ids = list(islice((token for word in words for token in word), length))
        return np.array([*ids, self._end], np.int32)

    def _text(self, ids: Ids) -> str:
        data = b"".join(map(self._vocabulary.token_bytes, ids.tolist()))
        return data.decode("utf-8", "replace")


def recorded_texts(path: Path) -> dict[int, str]:
    """What gens said, by the seed that their samples have in a run with seed 0, out of a file that
    `sgc run --record` wrote."""
    found: dict[int, str] = {}
    with path.open(encoding="utf-8") as file:
        for line in map(json.loads, file):
            if line.get("kind") == "gen":
                fixed = line["params"].get("seed")
                for i, text in enumerate(line["text"]):
                    path_seed = node_seed(0, line["row"], line["node"], i)
                    found[path_seed if fixed is None else fixed_seed(fixed, i)] = text
    return found


def _digest(request: Request) -> int:
    assert request.row is not None
    seed = 0 if request.row.params.greedy else request.row.seed
    data = request.prompt.tobytes() + seed.to_bytes(8, "big")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")
