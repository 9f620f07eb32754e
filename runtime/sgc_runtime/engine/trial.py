"""What an engine holds on a GPU and its largest step, made once to see what they take."""

from __future__ import annotations

import gc
import time

import torch

from sgc_runtime.cache.kv_pool import KVPool
from sgc_runtime.engine.budgets import Budgets, Trial
from sgc_runtime.engine.host_runner import Model
from sgc_runtime.engine.options import EngineOptions
from sgc_runtime.engine.profile import NO_PROFILE
from sgc_runtime.engine.runners import device_runner
from sgc_runtime.model.config import ModelConfig
from sgc_runtime.model.forward import ForwardBatch

LONGEST = 2048  # tokens of one prompt of the step


class CudaMachine:
    """A GPU with a model in its memory; see `budgets.Machine`.

    Args:
        kv_dtype: number format of keys and values.
    """

    def __init__(
        self,
        model: Model,
        config: ModelConfig,
        options: EngineOptions,
        kv_dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self._model = model
        self._config = config
        self._options = options
        self._kv_dtype = kv_dtype
        self._device = device

    def free_bytes(self) -> int:
        gc.collect()
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info(self._device)
        return free

    def held(self, rows: int, max_context: int) -> int | None:
        try:
            self._decode(rows)
            return self._held(rows, max_context)
        except torch.OutOfMemoryError:
            return None

    def _held(self, rows: int, max_context: int) -> int:
        kv = self._pool(1, spare=1)
        before = torch.cuda.memory_allocated(self._device)
        sizes = Budgets(kv.num_slots, rows, 0, None)
        runner = device_runner(
            self._model,
            self._config,
            self._options,
            kv,
            sizes,
            max_context,
            self._device,
            NO_PROFILE,
        )
        after = torch.cuda.memory_allocated(self._device)
        runner.close()
        return after - before

    @torch.inference_mode()
    def _decode(self, rows: int) -> None:
        """One token of each row beside a longer context than any window: what attention keeps for
        such steps is there from now on."""
        windows = [window for window in self._config.windows if window is not None]
        longest = min(self._config.max_positions, 1 + max(windows, default=0))
        kv = self._pool(rows)
        batch = decode_rows(rows, longest, self._config.vocab_size, self._device)
        for _ in range(2):  # some attention plans in two places by turns
            self._model.forward(batch, kv)

    def _pool(self, num_slots: int, spare: int = 0) -> KVPool:
        config = self._config
        shape = (config.num_layers, num_slots, config.num_kv_heads, config.head_dim)
        return KVPool(*shape, self._kv_dtype, self._device, spare=spare)

    def trial(self, num_tokens: int, num_logits: int) -> Trial | None:
        try:
            return self._trial(num_tokens, num_logits)
        except torch.OutOfMemoryError:
            return None

    @torch.inference_mode()
    def _trial(self, num_tokens: int, num_logits: int) -> Trial:
        config, device = self._config, self._device
        kv = self._pool(num_tokens)
        longest = min(LONGEST, config.max_positions)
        batch = prompts(num_tokens, longest, num_logits, config.vocab_size, device)
        self._model.forward(batch, kv)  # compiles what is not compiled yet
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        begin = time.perf_counter()
        self._model.forward(batch, kv)
        torch.cuda.synchronize(device)
        seconds = time.perf_counter() - begin
        return Trial(torch.cuda.max_memory_allocated(device) - before, seconds)


def prompts(
    num_tokens: int, longest: int, num_logits: int, vocab: int, device: torch.device
) -> ForwardBatch:
    """A step of `num_tokens` new tokens in prompts of `longest`, each in slots of its own; the
    logits of `num_logits` rows are wanted, of some more than once where there are fewer.

    The tokens are drawn from all: equal numbers take less power, and a GPU is faster with them.
    """
    ends = torch.arange(longest, num_tokens + longest, longest).clamp(max=num_tokens)
    indptr = torch.cat([torch.zeros(1), ends]).to(torch.int32)
    slots = torch.arange(num_tokens, device=device)
    return ForwardBatch(
        input_ids=_some_ids(num_tokens, vocab, device),
        positions=slots % longest,
        out_slots=slots,
        qo_indptr=indptr,
        kv_indptr=indptr,
        kv_slots=slots,
        logit_rows=torch.arange(num_logits, device=device) % num_tokens,
    )


def decode_rows(rows: int, longest: int, vocab: int, device: torch.device) -> ForwardBatch:
    """A step of one new token in each of `rows` sequences over as many slots: the first sees
    `longest` tokens, the others themselves; the logits of one are wanted."""
    lengths = torch.ones(rows, dtype=torch.int64)
    lengths[0] = longest
    ends = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    return ForwardBatch(
        input_ids=_some_ids(rows, vocab, device),
        positions=(lengths - 1).to(device),
        out_slots=torch.arange(rows, device=device),
        qo_indptr=torch.arange(rows + 1, dtype=torch.int32),
        kv_indptr=ends.int(),
        kv_slots=torch.arange(int(ends[-1]), device=device) % rows,
        logit_rows=torch.zeros(1, dtype=torch.int64, device=device),
    )


def _some_ids(count: int, vocab: int, device: torch.device) -> torch.Tensor:
    drawn = torch.randint(vocab, (count,), generator=torch.Generator().manual_seed(0))
    return drawn.to(device)
