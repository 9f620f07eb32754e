"""SGLang and vLLM on prompts of ids, each by its own interface for batches.

What is not said here is their default, which is their best documented set-up on this GPU:
FlashAttention-3, CUDA graphs, prefix caching, overlap of host and GPU. Both load the same weights
as ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from benchmarks.gpu.engine_api import Generated, IdsEngine
from benchmarks.gpu.prompts import Ids
from benchmarks.gpu.scripts import Script, replay_by_waves

LONGEST = 8192  # tokens of a context
_HEAVY = {
    "sgc": "sgc_runtime.engine.assemble",
    "sglang": "sglang.srt.entrypoints.engine",
    "vllm": "vllm.entrypoints.llm",
}


class SglangEngine:
    """`sglang.Engine.generate`, a call for all prompts."""

    def __init__(self, model: str, **options: Any) -> None:
        sglang = import_module("sglang")
        self.name = f"sglang {sglang.__version__}"
        self.settings = {
            "dtype": "bfloat16",
            "context_length": LONGEST,
            "mem_fraction_static": 0.85,
            "random_seed": 1,
            "log_level": "info",
            **options,
        }
        self._engine: Any = sglang.Engine(model_path=model, **self.settings)

    def batch(
        self,
        prompts: Sequence[Ids],
        new_tokens: int,
        regex: str | None = None,
        temperature: float = 0.0,
    ) -> Generated:
        params = _sglang_params(new_tokens, temperature, regex)
        found = self._engine.generate(input_ids=list(prompts), sampling_params=params)
        return Generated(
            [answer["output_ids"] for answer in found],
            [answer["text"] for answer in found],
            sum(answer["meta_info"].get("cached_tokens", 0) for answer in found),
        )

    def replay(self, script: Script) -> list[Ids]:
        """Wave after wave, all instances together."""

        def answer(prompts: list[Ids], lengths: list[int]) -> list[Ids]:
            params = [_sglang_params(length, 0.0, None) for length in lengths]
            found = self._engine.generate(input_ids=prompts, sampling_params=params)
            return [given["output_ids"] for given in found]

        return replay_by_waves(script, answer)

    def close(self) -> None:
        self._engine.shutdown()


def _sglang_params(new_tokens: int, temperature: float, regex: str | None) -> dict[str, Any]:
    params = {
        "max_new_tokens": new_tokens,
        "temperature": temperature,
        "ignore_eos": regex is None,
    }
    return params if regex is None else {**params, "regex": regex}


class VllmEngine:
    """`vllm.LLM.generate`, a call for all prompts."""

    def __init__(self, model: str, **options: Any) -> None:
        vllm = import_module("vllm")
        self.name = f"vllm {vllm.__version__}"
        self.settings = {
            "dtype": "bfloat16",
            "max_model_len": LONGEST,
            "gpu_memory_utilization": 0.85,
            "enable_prefix_caching": True,
            "seed": 1,
            **options,
        }
        self._params: Any = vllm.SamplingParams
        self._engine: Any = vllm.LLM(model=model, **self.settings)

    def batch(
        self,
        prompts: Sequence[Ids],
        new_tokens: int,
        regex: str | None = None,
        temperature: float = 0.0,
    ) -> Generated:
        params = self._sampling(new_tokens, temperature, regex)
        found = self._generate(prompts, params)
        return Generated(
            [list(answer.outputs[0].token_ids) for answer in found],
            [answer.outputs[0].text for answer in found],
            sum(answer.num_cached_tokens or 0 for answer in found),
        )

    def replay(self, script: Script) -> list[Ids]:
        """Wave after wave, all instances together."""

        def answer(prompts: list[Ids], lengths: list[int]) -> list[Ids]:
            params = [self._sampling(length, 0.0, None) for length in lengths]
            found = self._generate(prompts, params)
            return [list(given.outputs[0].token_ids) for given in found]

        return replay_by_waves(script, answer)

    def close(self) -> None:
        """Its process ends with this one."""

    def _generate(self, prompts: Sequence[Ids], params: Any) -> Any:
        asked = [{"prompt_token_ids": ids} for ids in prompts]
        return self._engine.generate(asked, params, use_tqdm=False)

    def _sampling(self, new_tokens: int, temperature: float, regex: str | None) -> Any:
        options: dict[str, Any] = {}
        if regex is not None:
            bound: Any = import_module("vllm.sampling_params").StructuredOutputsParams
            options["structured_outputs"] = bound(regex=regex)
        return self._params(
            max_tokens=new_tokens,
            temperature=temperature,
            ignore_eos=regex is None,
            **options,
        )


def import_early(kind: str) -> None:
    """What takes most of the time to import, while nothing is measured yet."""
    import_module(_HEAVY[kind])


def make_engine(kind: str, model: str, options: dict[str, Any]) -> IdsEngine:
    """Start an engine; takes seconds to minutes."""
    if kind == "sglang":
        return SglangEngine(model, **options)
    if kind == "vllm":
        return VllmEngine(model, **options)
    from benchmarks.gpu.sgc_ids import SgcIds

    return SgcIds(model, **options)
