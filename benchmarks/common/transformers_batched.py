"""`transformers`, batch by batch: `generate` for gens, one padded forward for scored choices."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch

from benchmarks.common.peer import Replay, batches, waves
from benchmarks.common.recording import Recording
from benchmarks.common.transformers_model import PAD


class ComputedTokens:
    """Counts the ids that go through a model's embedding, padding included."""

    def __init__(self, model: Any) -> None:
        self.count = 0
        self._hook = model.get_input_embeddings().register_forward_hook(self._see)

    def _see(self, module: Any, inputs: Any, output: Any) -> None:
        self.count += inputs[0].numel()

    def close(self) -> None:
        self._hook.remove()


class BatchedGenerate:
    """Waves of independent calls, each sorted by length into batches with padding on the left.

    Dynamic KV cache: on a CPU the static one attends over its whole length at every step.

    Args:
        model: from `load_transformers`.
        batch: sequences a batch, at most.
        batch_tokens: padded prompt tokens a batch, at most (memory of the prefill).
    """

    name = "transformers generate"

    def __init__(self, model: Any, batch: int = 32, batch_tokens: int = 32_768) -> None:
        self._model, self._batch, self._batch_tokens = model, batch, batch_tokens
        self.method = (
            f"model.generate, bfloat16, sdpa, dynamic cache, left padding, sorted by length into "
            f"batches of at most {batch}; scored choices: one forward a batch, logits of the "
            "choices' positions only"
        )

    def replay(self, recording: Recording) -> Replay:
        outputs: list[list[int]] = [[] for _ in recording.calls]
        counter = ComputedTokens(self._model)
        begin = time.perf_counter()
        try:
            with torch.inference_mode():
                scored = self._score(recording) if recording.num_scored else 0
                if not recording.num_scored:
                    self._generate(recording, outputs)
            seconds = time.perf_counter() - begin
        finally:
            counter.close()
        return Replay(seconds, outputs, scored, counter.count)

    def _generate(self, recording: Recording, outputs: list[list[int]]) -> None:
        for wave in waves(recording):
            prompts = [recording.prompt_of(i, outputs) for i in wave]
            for batch in self._batches(list(map(len, prompts))):
                calls = [recording.calls[wave[i]] for i in batch]
                made = self._batch_output(
                    [prompts[i] for i in batch], max(c.num_new for c in calls), calls[0].heat
                )
                for i, call, output in zip(batch, calls, made, strict=True):
                    outputs[wave[i]] = output[: call.num_new]

    def _batch_output(
        self, prompts: Sequence[Sequence[int]], num_new: int, heat: float
    ) -> list[list[int]]:
        ids, mask = padded(prompts)
        sampling = {"do_sample": True, "temperature": heat, "top_k": 0} if heat else {}
        out = self._model.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=num_new,
            **({"do_sample": False} | sampling),
        )
        made: list[list[int]] = out[:, ids.shape[1] :].tolist()
        return made

    def _score(self, recording: Recording) -> int:
        rows = [
            (call.prompt + choice, len(choice))
            for call in recording.calls
            for choice in call.choices
        ]
        scores = torch.empty(len(rows))
        for batch in self._batches([len(ids) for ids, _ in rows]):
            scores[batch] = self._batch_scores([rows[i] for i in batch])
        return int(torch.isfinite(scores).sum())

    def _batch_scores(self, rows: Sequence[tuple[Sequence[int], int]]) -> torch.Tensor:
        """Mean log-probability of the last tokens of each row."""
        ids, mask = padded([row for row, _ in rows])
        last = max(count for _, count in rows)
        logits = self._model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=(mask.cumsum(1) - 1).clamp(min=0),
            logits_to_keep=last + 1,
            use_cache=False,
        ).logits[:, :-1]
        targets = ids[:, -last:]
        found = logits.float().log_softmax(-1).gather(-1, targets[..., None])[..., 0]
        return torch.stack([found[i, last - n :].mean() for i, (_, n) in enumerate(rows)])

    def _batches(self, lengths: list[int]) -> list[list[int]]:
        size = max(1, min(self._batch, self._batch_tokens // max(lengths)))
        return batches(lengths, size)


def padded(rows: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask, both [rows, longest], with the padding on the left."""
    width = max(map(len, rows))
    ids = torch.full((len(rows), width), PAD)
    mask = torch.zeros((len(rows), width), dtype=torch.int64)
    for i, row in enumerate(rows):
        ids[i, width - len(row) :] = torch.tensor(row)
        mask[i, width - len(row) :] = 1
    return ids, mask
