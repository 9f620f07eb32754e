"""Log-probabilities of choices by plain forwards of `transformers`: what our scores must equal."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

import torch
from transformers import DynamicCache

from benchmarks.common.transformers_names import cache_argument


class ChoiceReference:
    """Scores choices behind prompts, one row at a time.

    The keys and values of the last prompt stay, so that what the next one begins with alike (the
    shots of its subject) is not computed again. Nothing is padded within a prompt, and nothing of
    sgc takes part.

    Args:
        model: a causal model of transformers.
        encode: ids of a text, without any that mark its start.
    """

    def __init__(self, model: Any, encode: Callable[[str], list[int]]) -> None:
        self._model, self._encode = model, encode
        self._name = cache_argument(model)
        self._cache = DynamicCache(config=model.config)
        self._held: list[int] = []

    def logprobs(self, prompt: str, choices: Sequence[str]) -> list[list[float]]:
        """For each choice the log-probabilities, in nats, of its tokens as `split` gives them."""
        before, own = split(self._encode, prompt, choices)
        with torch.inference_mode():
            return self._behind(self._read(before), own)

    def _read(self, ids: list[int]) -> torch.Tensor:
        """Distribution behind `ids` [vocab], whose keys and values the cache holds afterwards."""
        known = min(_common(self._held, ids), len(ids) - 1)  # one has to be computed
        if known < len(self._held):
            self._cache.crop(known - len(self._held))
        new = torch.tensor([ids[known:]])
        self._held = ids
        logits = self._forward(new, self._cache, logits_to_keep=1)
        return logits[0, -1].float().log_softmax(-1)

    def _behind(self, first: torch.Tensor, choices: Sequence[list[int]]) -> list[list[float]]:
        longest = max(map(len, choices))
        if longest == 1:
            return [[float(first[ids[0]])] for ids in choices]
        cache = copy.deepcopy(self._cache)
        cache.batch_repeat_interleave(len(choices))
        padded = torch.tensor([ids + [0] * (longest - len(ids)) for ids in choices])  # at the end
        later = self._forward(padded, cache).float().log_softmax(-1)
        return [
            [float(first[ids[0]]), *(float(row[at, i]) for at, i in enumerate(ids[1:]))]
            for row, ids in zip(later, choices, strict=True)
        ]

    def _forward(self, ids: torch.Tensor, cache: Any, **options: Any) -> torch.Tensor:
        """Logits [batch, tokens, vocab]; `cache`, which holds what is before, then holds `ids`."""
        logits: torch.Tensor = self._model(input_ids=ids, **{self._name: cache}, **options).logits
        return logits


def split(
    encode: Callable[[str], list[int]], prompt: str, choices: Sequence[str]
) -> tuple[list[int], list[list[int]]]:
    """Ids before the choices, and those of each choice.

    Prompt and choice are encoded as one text. A choice begins where any choice's ids leave those
    of the prompt without its last blanks: the same place for all choices.
    """
    rows = [encode(prompt + choice) for choice in choices]
    alone = encode(prompt.rstrip())
    start = min(_common(alone, row) for row in rows)
    return rows[0][:start], [row[start:] for row in rows]


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of what both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other)))  # noqa: B905
