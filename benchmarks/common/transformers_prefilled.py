"""`transformers` with the shared prefix put into a KV cache by hand before the batches."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache

from benchmarks.common.peer import PeerMissing, Replay, batches
from benchmarks.common.prefixes import shared_prefix
from benchmarks.common.recording import Recording
from benchmarks.common.transformers_batched import ComputedTokens, padded
from benchmarks.common.transformers_names import cache_argument


class PrefilledGenerate:
    """Prompt reuse as transformers' guide to caches shows it, for prompts that all begin alike.

    The user has to know the shared prefix; a tree of prefixes cannot be reused this way.
    """

    name = "transformers generate, prefix prefilled by hand"

    def __init__(self, model: Any, batch: int = 32) -> None:
        self._model, self._batch = model, batch
        self._cache = cache_argument(model)
        self.method = (
            "the prefix of all prompts once into a DynamicCache, which is repeated for each batch "
            f"of at most {batch}; then model.generate, or one forward for scored choices"
        )

    def replay(self, recording: Recording) -> Replay:
        calls = recording.calls
        prefix = shared_prefix([call.prompt for call in calls])
        if not prefix or any(call.wave for call in calls):
            raise PeerMissing("the prompts have no prefix in common, or follow from each other")
        counter = ComputedTokens(self._model)
        outputs: list[list[int]] = [[] for _ in calls]
        scored = 0
        begin = time.perf_counter()
        try:
            with torch.inference_mode():
                cache = DynamicCache(config=self._model.config)
                ids = torch.tensor([calls[0].prompt[:prefix]])
                self._model(input_ids=ids, logits_to_keep=1, **{self._cache: cache})
                if recording.num_scored:
                    scored = self._score(recording, cache, prefix)
                else:
                    self._generate(recording, cache, prefix, outputs)
            seconds = time.perf_counter() - begin
        finally:
            counter.close()
        return Replay(seconds, outputs, scored, counter.count)

    def _generate(
        self, recording: Recording, cache: Any, prefix: int, outputs: list[list[int]]
    ) -> None:
        calls = recording.calls
        for batch in batches([len(call.prompt) for call in calls], self._batch):
            num_new = max(calls[i].num_new for i in batch)
            ids, mask = _behind([calls[i].prompt for i in batch], prefix)
            out = self._model.generate(
                input_ids=ids,
                attention_mask=mask,
                max_new_tokens=num_new,
                do_sample=False,
                **{self._cache: _repeated(cache, len(batch))},
            )
            for i, output in zip(batch, out[:, ids.shape[1] :].tolist(), strict=True):
                outputs[i] = output[: calls[i].num_new]

    def _score(self, recording: Recording, cache: Any, prefix: int) -> int:
        rows = [
            (call.prompt + choice, len(choice))
            for call in recording.calls
            for choice in call.choices
        ]
        found = 0
        for batch in batches([len(row) for row, _ in rows], self._batch):
            found += self._batch_scores([rows[i] for i in batch], cache, prefix)
        return found

    def _batch_scores(
        self, rows: Sequence[tuple[Sequence[int], int]], cache: Any, prefix: int
    ) -> int:
        ids, mask = _behind([row for row, _ in rows], prefix)
        last = max(count for _, count in rows)
        keep = min(last + 1, ids.shape[1] - prefix)
        logits = self._model(
            input_ids=ids[:, prefix:],
            attention_mask=mask,
            position_ids=(mask.cumsum(1) - 1).clamp(min=0)[:, prefix:],
            logits_to_keep=keep,
            **{self._cache: _repeated(cache, len(rows))},
        ).logits[:, :-1]
        targets = ids[:, -(keep - 1) :]
        logprobs = logits.float().log_softmax(-1).gather(-1, targets[..., None])[..., 0]
        means = [logprobs[i, keep - 1 - n :].mean() for i, (_, n) in enumerate(rows)]
        return int(torch.isfinite(torch.stack(means)).sum())


def _behind(rows: Sequence[Sequence[int]], prefix: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The prefix, padding, and each row's own tokens; and the mask of them."""
    own, mask = padded([row[prefix:] for row in rows])
    shared = torch.tensor([list(rows[0][:prefix])] * len(rows))
    return torch.cat([shared, own], 1), torch.cat([torch.ones_like(shared), mask], 1)


def _repeated(cache: Any, times: int) -> Any:
    again = copy.deepcopy(cache)
    again.batch_repeat_interleave(times)
    return again
