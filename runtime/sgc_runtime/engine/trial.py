"""The largest step of a model on a GPU, computed once to see what it takes."""

from __future__ import annotations

import gc
import time

import torch

from sgc_runtime.cache.kv_pool import KVPool
from sgc_runtime.engine.budgets import Trial
from sgc_runtime.engine.host_runner import Model
from sgc_runtime.model.config import ModelConfig
from sgc_runtime.model.forward import ForwardBatch

LONGEST = 2048  # tokens of one prompt of the step


class CudaMachine:
    """A GPU with a model in its memory; see `budgets.Machine`.

    Args:
        kv_dtype: number format of keys and values.
    """

    def __init__(
        self, model: Model, config: ModelConfig, kv_dtype: torch.dtype, device: torch.device
    ) -> None:
        self._model = model
        self._config = config
        self._kv_dtype = kv_dtype
        self._device = device

    def free_bytes(self) -> int:
        gc.collect()
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info(self._device)
        return free

    def trial(self, num_tokens: int, num_logits: int) -> Trial | None:
        try:
            return self._trial(num_tokens, num_logits)
        except torch.OutOfMemoryError:
            return None

    @torch.inference_mode()
    def _trial(self, num_tokens: int, num_logits: int) -> Trial:
        config, device = self._config, self._device
        shape = (config.num_layers, num_tokens, config.num_kv_heads, config.head_dim)
        kv = KVPool(*shape, self._kv_dtype, device)
        longest = min(LONGEST, config.max_positions)
        batch = prompts(num_tokens, longest, num_logits, device)
        self._model.forward(batch, kv)  # compiles what is not compiled yet
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        begin = time.perf_counter()
        self._model.forward(batch, kv)
        torch.cuda.synchronize(device)
        seconds = time.perf_counter() - begin
        return Trial(torch.cuda.max_memory_allocated(device) - before, seconds)


def prompts(num_tokens: int, longest: int, num_logits: int, device: torch.device) -> ForwardBatch:
    """A step of `num_tokens` new tokens in prompts of `longest`, each in slots of its own; the
    logits of `num_logits` rows are wanted, of some more than once where there are fewer."""
    ends = torch.arange(longest, num_tokens + longest, longest).clamp(max=num_tokens)
    indptr = torch.cat([torch.zeros(1), ends]).to(torch.int32)
    slots = torch.arange(num_tokens, device=device)
    return ForwardBatch(
        input_ids=torch.zeros(num_tokens, dtype=torch.int64, device=device),
        positions=slots % longest,
        out_slots=slots,
        qo_indptr=indptr,
        kv_indptr=indptr,
        kv_slots=slots,
        logit_rows=torch.arange(num_logits, device=device) % num_tokens,
    )
