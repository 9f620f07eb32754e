"""`transformers` with continuous batching, with or without its block sharing."""

from __future__ import annotations

import time
from typing import Any

import torch
from transformers import GenerationConfig

from benchmarks.common.peer import PeerMissing, Replay
from benchmarks.common.recording import Recording
from benchmarks.common.transformers_batched import ComputedTokens
from benchmarks.common.transformers_names import continuous_config

_TIMEOUT_S = 600.0
_PAGE = 32  # tokens; the default of 256 would share less


class ContinuousBatching:
    """A `ContinuousBatchingManager` that gets each call as soon as its parent is done.

    A new manager (an empty cache) for each replay; making it and its first, unrelated request
    stay outside the measured time.

    Args:
        model: from `load_transformers`.
        sharing: `allow_block_sharing`.
    """

    def __init__(self, model: Any, sharing: bool, batch_tokens: int = 1024) -> None:
        self._model, self._sharing, self._batch_tokens = model, sharing, batch_tokens
        self.name = f"transformers continuous, {'with' if sharing else 'without'} sharing"
        self.method = (
            f"ContinuousBatchingManager, bfloat16, sdpa, pages of {_PAGE} tokens, at most "
            f"{batch_tokens} tokens a step, allow_block_sharing={sharing}"
        )

    def replay(self, recording: Recording) -> Replay:
        if recording.num_scored:
            raise PeerMissing("continuous batching gives no scores of given tokens")
        with torch.inference_mode():
            manager = self._manager(recording)
            manager.start()
            try:
                _warm_up(manager)
                counter = ComputedTokens(self._model)
                begin = time.perf_counter()
                outputs = _run(manager, recording)
                seconds = time.perf_counter() - begin
                counter.close()
            finally:
                manager.stop(block=True, timeout=10)
                manager.destroy()
        return Replay(seconds, outputs, computed_tokens=counter.count)

    def _manager(self, recording: Recording) -> Any:
        heat = max(call.heat for call in recording.calls)
        sampling: dict[str, Any] = {"do_sample": False}
        if heat:
            sampling = {"do_sample": True, "temperature": heat, "top_k": 0}
        tokens = sum(_pages(len(c.prompt) + c.num_new) for c in recording.calls)
        return self._model.init_continuous_batching(
            generation_config=GenerationConfig(eos_token_id=-1, pad_token_id=0, **sampling),
            continuous_batching_config=continuous_config(
                _PAGE,
                num_blocks=min(tokens, 1200) + 16,
                max_batch_tokens=self._batch_tokens,
                allow_block_sharing=self._sharing,
            ),
        )


def _pages(tokens: int) -> int:
    return -(-tokens // _PAGE)


def _warm_up(manager: Any) -> None:
    manager.add_request([5, 6, 7], request_id="warm-up", max_new_tokens=2)
    _next_result(manager)


def _run(manager: Any, recording: Recording) -> list[list[int]]:
    outputs: list[list[int]] = [[] for _ in recording.calls]
    children: dict[int | None, list[int]] = {}
    for i, call in enumerate(recording.calls):
        children.setdefault(call.parent, []).append(i)
    _send(manager, recording, children.get(None, []), outputs)
    for _ in recording.calls:
        result = _next_result(manager)
        done = int(result.request_id)
        outputs[done] = list(result.generated_tokens)
        _send(manager, recording, children.get(done, []), outputs)
    return outputs


def _send(manager: Any, recording: Recording, calls: list[int], outputs: list[list[int]]) -> None:
    prompts = {i: recording.prompt_of(i, outputs) for i in calls}
    for i in sorted(calls, key=prompts.__getitem__):  # as add_requests orders them, to share more
        manager.add_request(
            prompts[i], request_id=str(i), max_new_tokens=recording.calls[i].num_new
        )


def _next_result(manager: Any) -> Any:
    end = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < end:
        result = manager.get_result(timeout=1)
        if result is not None and result.is_finished():
            if result.error:
                raise PeerMissing(f"continuous batching failed: {result.error}")
            return result
        if not manager.is_running():
            raise PeerMissing("continuous batching stopped by itself")
    raise PeerMissing(f"continuous batching gave nothing for {_TIMEOUT_S:.0f} s")
