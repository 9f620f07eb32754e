"""`transformers`: batched `generate` and padded scoring, or continuous batching."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from benchmarks.common.peer import Replay
from benchmarks.common.recording import Recording
from benchmarks.common.transformers_batched import BatchedGenerate, ComputedTokens, padded
from benchmarks.common.transformers_continuous import ContinuousBatching
from benchmarks.peers.adapter import Ids, refuse_scores, replay_in_waves

_SCORE_TOKENS = 32_768  # of one padded forward


class TransformersGenerate:
    """`model.generate` on batches of `parallel` prompts, padded on the left.

    Args:
        model: from `load_transformers`.
    """

    name = "transformers generate"
    method = (
        "model.generate, bfloat16, sdpa, dynamic cache, left padding, neighbours in length in one "
        "batch; scored choices: one forward a batch, logits of their positions only"
    )
    lacks: tuple[str, ...] = (
        "no fork and no prefix cache: every call computes its whole prompt",
        "a batch ends with its longest call",
    )

    def __init__(self, model: Any) -> None:
        self._model, self._batched = model, BatchedGenerate(model)
        self._recording = Recording(())

    def replay(self, recording: Recording, parallel: int) -> Replay:
        self._recording = recording
        counter = ComputedTokens(self._model)
        try:
            with torch.inference_mode():
                replay = replay_in_waves(self, recording, parallel)
        finally:
            counter.close()
        replay.computed_tokens = counter.count
        return replay

    def generate(self, calls: Sequence[int], prompts: Sequence[Ids]) -> list[Ids]:
        asked = [self._recording.calls[i] for i in calls]
        made: list[Ids] = [[] for _ in asked]
        for heat in sorted({call.heat for call in asked}):  # one call, one temperature
            some = [i for i, call in enumerate(asked) if call.heat == heat]
            longest = max(asked[i].num_new for i in some)
            ids, mask = padded([prompts[i] for i in some])
            sampling = {"do_sample": True, "temperature": heat, "top_k": 0} if heat else {}
            out = self._model.generate(
                input_ids=ids,
                attention_mask=mask,
                max_new_tokens=longest,
                **({"do_sample": False} | sampling),
            )
            for i, row in zip(some, out[:, ids.shape[1] :].tolist(), strict=True):
                made[i] = row[: asked[i].num_new]
        return made

    def score(self, calls: Sequence[int], prompts: Sequence[Ids]) -> list[int]:
        rows = [
            ((*prompt, *choice), len(choice), k)
            for k, (i, prompt) in enumerate(zip(calls, prompts, strict=True))
            for choice in self._recording.calls[i].choices
        ]
        size = max(1, _SCORE_TOKENS // max(len(ids) for ids, _, _ in rows))
        found = [0] * len(calls)
        for first in range(0, len(rows), size):
            part = rows[first : first + size]
            scores = self._batched._batch_scores([(ids, count) for ids, count, _ in part])
            for (_, _, k), good in zip(part, torch.isfinite(scores).tolist(), strict=True):
                found[k] += good
        return found

    def close(self) -> None:
        """Nothing runs between replays."""


class TransformersContinuous:
    """`ContinuousBatchingManager`, which takes each call as soon as its parent is done."""

    name = "transformers continuous"
    lacks: tuple[str, ...] = (
        "no select: no log-probabilities of given tokens",
        "no bound on calls at a time but its own scheduler's",
    )

    def __init__(self, model: Any) -> None:
        self._inner = ContinuousBatching(model, sharing=True)
        self.method = self._inner.method

    def replay(self, recording: Recording, parallel: int) -> Replay:
        refuse_scores(recording, self.name)
        return self._inner.replay(recording)

    def close(self) -> None:
        """Nothing runs between replays."""
