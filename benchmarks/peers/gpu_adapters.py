"""SGLang and vLLM, their offline engines on a GPU, where the packages are present.

All engines stay loaded in one run, so that repetitions come in turn; each takes a share of the
memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.common.peer import PeerMissing, Replay
from benchmarks.common.recording import Recording
from benchmarks.gpu.peer_engines import SglangEngine, VllmEngine
from benchmarks.peers.adapter import Ids, replay_in_waves

_SHARE = 0.4  # of the GPU's memory, for each of the two


class SglangBatches:
    """`sglang.Engine.generate`, a call for each list; scores by `logprob_start_len`."""

    name = "sglang"
    method = "sglang.Engine.generate on input_ids, radix cache, defaults for the GPU"
    lacks: tuple[str, ...] = ("its front end's forks are not used: calls come as ids",)

    def __init__(self, model: str) -> None:
        try:
            self._inner = SglangEngine(model, mem_fraction_static=_SHARE)
        except ImportError as error:
            raise PeerMissing("sglang is not installed; it is left out") from error
        self._engine: Any = self._inner._engine
        self._recording = Recording(())

    def replay(self, recording: Recording, parallel: int) -> Replay:
        self._recording = recording
        self._engine.flush_cache()
        return replay_in_waves(self, recording, parallel)

    def generate(self, calls: Sequence[int], prompts: Sequence[Ids]) -> list[Ids]:
        asked = [self._recording.calls[i] for i in calls]
        params = [
            {"max_new_tokens": call.num_new, "temperature": call.heat, "ignore_eos": True}
            for call in asked
        ]
        found = self._engine.generate(input_ids=list(prompts), sampling_params=params)
        return [list(answer["output_ids"]) for answer in found]

    def score(self, calls: Sequence[int], prompts: Sequence[Ids]) -> list[int]:
        rows = [
            ([*prompt, *choice], len(prompt), k)
            for k, (i, prompt) in enumerate(zip(calls, prompts, strict=True))
            for choice in self._recording.calls[i].choices
        ]
        # As its front end does it: the prompts first, so that the choices find them in the cache.
        self._engine.generate(
            input_ids=list(prompts), sampling_params={"max_new_tokens": 0, "temperature": 0.0}
        )
        found = self._engine.generate(
            input_ids=[ids for ids, _, _ in rows],
            sampling_params={"max_new_tokens": 0, "temperature": 0.0},
            return_logprob=True,
            logprob_start_len=[max(start - 1, 0) for _, start, _ in rows],
        )
        scored = [0] * len(calls)
        for (ids, start, k), answer in zip(rows, found, strict=True):
            known = answer["meta_info"]["input_token_logprobs"]
            scored[k] += len(known) >= len(ids) - start
        return scored

    def close(self) -> None:
        self._inner.close()


class VllmBatches:
    """`vllm.LLM.generate`, a call for each list; scores by `prompt_logprobs`."""

    name = "vllm"
    method = "vllm.LLM.generate on prompt_token_ids, prefix caching, defaults for the GPU"
    lacks: tuple[str, ...] = (
        "no fork: calls come as ids",
        "log-probabilities of a prompt are computed anew, without its prefix cache",
    )

    def __init__(self, model: str) -> None:
        try:
            self._inner = VllmEngine(model, gpu_memory_utilization=_SHARE)
        except ImportError as error:
            raise PeerMissing("vllm is not installed; it is left out") from error
        self._engine: Any = self._inner._engine
        self._recording = Recording(())

    def replay(self, recording: Recording, parallel: int) -> Replay:
        self._recording = recording
        self._engine.reset_prefix_cache()
        return replay_in_waves(self, recording, parallel)

    def generate(self, calls: Sequence[int], prompts: Sequence[Ids]) -> list[Ids]:
        asked = [self._recording.calls[i] for i in calls]
        params = [
            self._inner._params(max_tokens=call.num_new, temperature=call.heat, ignore_eos=True)
            for call in asked
        ]
        found = self._inner._generate(prompts, params)
        return [list(answer.outputs[0].token_ids) for answer in found]

    def score(self, calls: Sequence[int], prompts: Sequence[Ids]) -> list[int]:
        rows = [
            ([*prompt, *choice], len(prompt), k)
            for k, (i, prompt) in enumerate(zip(calls, prompts, strict=True))
            for choice in self._recording.calls[i].choices
        ]
        params = self._inner._params(max_tokens=1, temperature=0.0, prompt_logprobs=0)
        found = self._inner._generate([ids for ids, _, _ in rows], params)
        scored = [0] * len(calls)
        for (_, start, k), answer in zip(rows, found, strict=True):
            scored[k] += all(known is not None for known in answer.prompt_logprobs[start:])
        return scored

    def close(self) -> None:
        self._inner.close()
