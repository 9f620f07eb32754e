"""The engine's core over a model that computes nothing, for what scheduling alone costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import torch

from sgc_ir.params import SamplingParams
from sgc_runtime.cache.kv_pool import KVPool
from sgc_runtime.engine.config import EngineConfig
from sgc_runtime.engine.core import EngineCore
from sgc_runtime.engine.host_runner import HostRunner
from sgc_runtime.engine.output import OutputWatcher
from sgc_runtime.engine.request import Outcome, Request
from sgc_runtime.engine.vocabulary import Vocabulary
from sgc_runtime.sampling.row import SamplingRow

VOCAB_SIZE = 64
_TOKEN = 5  # what the model always says
STEP_S = 0.004
TOKEN_S = 0.0006  # a token of a prompt, measured with the default model on two cores


class SilentModel:
    """Logits `[rows, vocab_size]` that always favour one token; writes no KV.

    Args:
        seconds: how long a step with so many tokens takes; rows come meanwhile, as they do
            beside a real model.
    """

    def __init__(
        self, vocab_size: int = VOCAB_SIZE, seconds: Callable[[int], float] | None = None
    ) -> None:
        self._vocab_size, self._seconds = vocab_size, seconds
        self.tokens = 0

    def forward(self, batch: Any, kv: Any) -> torch.Tensor:
        if self._seconds is not None:
            time.sleep(self._seconds(len(batch.input_ids)))
        self.tokens += len(batch.input_ids)
        logits = torch.zeros(len(batch.logit_rows), self._vocab_size)
        logits[:, _TOKEN] = 1.0
        return logits


def step_seconds(num_tokens: int) -> float:
    """What the default model takes for a step of so many tokens, roughly."""
    return STEP_S + TOKEN_S * num_tokens


class _Bytes:
    """One letter an id: all that a watcher asks of a vocabulary."""

    def token_bytes(self, token_id: int) -> bytes:
        return b"x"


def make_core(kv_tokens: int, **config: Any) -> EngineCore:
    """A core with a KV pool of one number a slot."""
    kv = KVPool(1, kv_tokens, 1, 1, torch.float32, torch.device("cpu"))
    runner = HostRunner(SilentModel(), kv)
    return EngineCore(runner, EngineConfig(kv_tokens=kv_tokens, **config))


def make_request(prompt: Sequence[int], max_tokens: int, instance: int) -> Request:
    """A greedy gen of exactly `max_tokens`."""
    params = SamplingParams(temperature=0.0, max_tokens=max_tokens, ignore_eos=True)
    watcher = OutputWatcher(params, cast(Vocabulary, _Bytes()), ())
    ids = np.array(prompt, np.int32)
    return Request(
        ids,
        on_done=_ignore,
        row=SamplingRow(params, 0, ids, watcher.held_back()),
        watcher=watcher,
        call_prompt=len(ids),
        instance=instance,
    )


def _ignore(request: Request, outcome: Outcome) -> None:
    """Nobody waits."""
