"""`llama-cpp-python` on the same GGUF file: many sequences in one batch, shared prefixes copied."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.peer import PeerMissing, Replay
from benchmarks.common.prefixes import shared_prefix
from benchmarks.common.recording import Recording

_BATCH = 2048  # tokens of one llama_decode
_MICRO = 512


class LlamaCpp:
    """Greedy decoding of all calls of one wave as parallel sequences.

    The prefix that all prompts share is computed once and given to the others with
    `llama_memory_seq_cp`; the rest of the prompts goes through in full batches, and every decode
    step takes one token of each sequence.
    """

    name = "llama.cpp"
    method = (
        "low-level API, Q4_1 weights as in the file, all calls as sequences of one batch, unified "
        "KV, shared prefix computed once and copied, greedy argmax over the logits buffer"
    )

    def __init__(self, gguf: Path, threads: int) -> None:
        try:
            import llama_cpp
        except ImportError as error:
            raise PeerMissing("llama-cpp-python is not installed; llama.cpp is left out") from error
        self._lib: Any = llama_cpp.llama_cpp
        self._threads = threads
        self._log = self._lib.llama_log_callback(_ignore)
        self._lib.llama_log_set(self._log, None)
        self._lib.llama_backend_init()
        params = self._lib.llama_model_default_params()
        self._model = self._lib.llama_model_load_from_file(str(gguf).encode(), params)
        if not self._model:
            raise PeerMissing(f"llama.cpp cannot load {gguf.name}; it is left out")
        self._vocab_size = self._lib.llama_vocab_n_tokens(
            self._lib.llama_model_get_vocab(self._model)
        )

    def replay(self, recording: Recording) -> Replay:
        if recording.num_scored or any(call.wave for call in recording.calls):
            raise PeerMissing("only independent gens are compared with llama.cpp")
        context = self._context(recording)
        batch = self._lib.llama_batch_init(_BATCH, 0, 1)
        try:
            self._warm_up(context, batch)
            begin = time.perf_counter()
            run = _Run(self._lib, context, batch, recording, self._vocab_size)
            outputs = run.outputs()
            seconds = time.perf_counter() - begin
        finally:
            self._lib.llama_batch_free(batch)
            self._lib.llama_free(context)
        return Replay(seconds, outputs, computed_tokens=run.computed)

    def _context(self, recording: Recording) -> Any:
        params = self._lib.llama_context_default_params()
        params.n_ctx = 256 + sum(len(c.prompt) + c.num_new for c in recording.calls)
        params.n_batch, params.n_ubatch = _BATCH, _MICRO
        params.n_seq_max = max(1, len(recording.calls))
        params.n_threads = params.n_threads_batch = self._threads
        params.kv_unified = True
        params.no_perf = True
        context = self._lib.llama_init_from_model(self._model, params)
        if not context:
            raise PeerMissing("llama.cpp made no context; it is left out")
        return context

    def _warm_up(self, context: Any, batch: Any) -> None:
        _fill(batch, [(5, 0, 0, True), (6, 1, 0, True)])
        self._lib.llama_decode(context, batch)
        self._lib.llama_memory_clear(self._lib.llama_get_memory(context), False)


_Token = tuple[int, int, int, bool]  # id, position, sequence, whether its logits are wanted


class _Run:
    def __init__(
        self, lib: Any, context: Any, batch: Any, recording: Recording, vocab_size: int
    ) -> None:
        self._lib, self._context, self._batch = lib, context, batch
        self._recording, self._vocab_size = recording, vocab_size
        self.computed = 0

    def outputs(self) -> list[list[int]]:
        calls = self._recording.calls
        outputs: list[list[int]] = [[] for _ in calls]
        for token, i in self._prefill():
            outputs[i].append(token)
        while True:
            going = [i for i, call in enumerate(calls) if len(outputs[i]) < call.num_new]
            if not going:
                return outputs
            step = [
                (outputs[i][-1], len(calls[i].prompt) + len(outputs[i]) - 1, i, True) for i in going
            ]
            for i, token in zip(going, self._decode(step), strict=True):
                outputs[i].append(token)

    def _prefill(self) -> list[tuple[int, int]]:
        prompts = [call.prompt for call in self._recording.calls]
        shared = shared_prefix(prompts)
        if shared:
            self._decode([(t, p, 0, False) for p, t in enumerate(prompts[0][:shared])])
            memory = self._lib.llama_get_memory(self._context)
            for i in range(1, len(prompts)):
                self._lib.llama_memory_seq_cp(memory, 0, i, 0, shared)
        own = [
            (token, position, i, position == len(prompt) - 1)
            for i, prompt in enumerate(prompts)
            for position, token in enumerate(prompt)
            if position >= shared
        ]
        return list(zip(self._decode(own), range(len(prompts)), strict=True))

    def _decode(self, tokens: Sequence[_Token]) -> list[int]:
        """The likeliest next ids where logits are wanted."""
        found: list[int] = []
        for first in range(0, len(tokens), _BATCH):
            part = tokens[first : first + _BATCH]
            _fill(self._batch, part)
            if self._lib.llama_decode(self._context, self._batch) != 0:
                raise PeerMissing("llama_decode failed")
            self.computed += len(part)
            found += self._argmax(sum(wanted for *_, wanted in part))
        return found

    def _argmax(self, rows: int) -> list[int]:
        if not rows:
            return []
        pointer = self._lib.llama_get_logits(self._context)
        logits = np.ctypeslib.as_array(pointer, (rows, self._vocab_size))
        ids: list[int] = logits.argmax(1).tolist()
        return ids


def _fill(batch: Any, tokens: Sequence[_Token]) -> None:
    batch.n_tokens = len(tokens)
    for k, (token, position, sequence, wanted) in enumerate(tokens):
        batch.token[k] = token
        batch.pos[k] = position
        batch.n_seq_id[k] = 1
        batch.seq_id[k][0] = sequence
        batch.logits[k] = wanted


def _ignore(level: int, text: bytes, data: ctypes.c_void_p) -> None:
    """llama.cpp talks about every tensor; nothing of it belongs in a result."""
