"""`llama-cpp-python`: calls as sequences of one batch, prefixes copied between sequences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.llama_cpp_peer import LlamaCpp, _fill
from benchmarks.common.peer import PeerMissing, Replay
from benchmarks.common.prefixes import shared_prefix
from benchmarks.common.recording import Recording
from benchmarks.peers.adapter import Ids, replay_in_waves

_BATCH = 2048  # tokens of one llama_decode
_LOGITS = 256  # rows of logits of one llama_decode, each as wide as the vocabulary
_SEQUENCES = 256  # llama.cpp's bound

_Token = tuple[int, int, int, bool]  # id, position, sequence, whether its logits are wanted


class LlamaCppWaves:
    """Lists of `parallel` calls. What all prompts of a list begin with is computed once; a score
    computes its prompt once for all choices."""

    name = "llama-cpp-python"
    method = (
        "low-level API, the file's own weights, the calls of a list as sequences of one batch, "
        "unified KV, their common prefix computed once and copied, greedy"
    )
    lacks: tuple[str, ...] = (
        "no prefix tree: only what all calls of a list share is reused, nothing of earlier lists",
        "draws at a temperature are replaced by greedy picks, which cost no more",
    )

    def __init__(self, gguf: Path, threads: int) -> None:
        self._inner = LlamaCpp(gguf, threads)
        self._lib: Any = self._inner._lib
        self._vocab: int = self._inner._vocab_size
        self._recording, self._computed = Recording(()), 0
        self._context: Any = None
        self._batch: Any = None

    def replay(self, recording: Recording, parallel: int) -> Replay:
        widest = max((len(call.choices) for call in recording.calls), default=0)
        if max(parallel, widest + 1) > _SEQUENCES:
            raise PeerMissing(f"llama.cpp takes at most {_SEQUENCES} sequences")
        self._recording, self._computed = recording, 0
        self._context = self._new_context(recording, parallel, widest)
        self._batch = self._lib.llama_batch_init(_BATCH, 0, 1)
        try:
            self._inner._warm_up(self._context, self._batch)
            replay = replay_in_waves(self, recording, parallel)
        finally:
            self._lib.llama_batch_free(self._batch)
            self._lib.llama_free(self._context)
        replay.computed_tokens = self._computed
        return replay

    def generate(self, calls: Sequence[int], prompts: Sequence[Ids]) -> list[Ids]:
        lengths = [self._recording.calls[i].num_new for i in calls]
        outputs: list[Ids] = [[] for _ in calls]
        for ids, row in zip(outputs, self._prefill(prompts), strict=True):
            ids.append(int(row.argmax()))
        while going := [k for k, ids in enumerate(outputs) if len(ids) < lengths[k]]:
            step = [(outputs[k][-1], len(prompts[k]) + len(outputs[k]) - 1, k, True) for k in going]
            for k, row in zip(going, self._decode(step), strict=True):
                outputs[k].append(int(row.argmax()))
        return outputs

    def score(self, calls: Sequence[int], prompts: Sequence[Ids]) -> list[int]:
        lasts = self._prefill(prompts)
        found = []
        for k, (i, prompt, last) in enumerate(zip(calls, prompts, lasts, strict=True)):
            choices = self._recording.calls[i].choices
            found.append(self._score_behind(k, len(prompt), last, choices, len(prompts)))
        return found

    def close(self) -> None:
        """Nothing runs between replays."""

    def _score_behind(
        self, own: int, start: int, last: Any, choices: Sequence[Sequence[int]], free: int
    ) -> int:
        """Finite scores behind sequence `own`; sequences from `free` on are empty."""
        memory = self._lib.llama_get_memory(self._context)
        tokens: list[_Token] = []
        for c, choice in enumerate(choices):
            self._lib.llama_memory_seq_cp(memory, own, free + c, 0, start)
            tokens += [(t, start + p, free + c, True) for p, t in enumerate(choice[:-1])]
        rows = iter(self._decode(tokens))
        finite = 0
        for c, choice in enumerate(choices):
            logits = [last, *(next(rows) for _ in choice[:-1])]
            means = np.mean([_logprob(row, t) for row, t in zip(logits, choice, strict=True)])
            finite += bool(np.isfinite(means))
            self._lib.llama_memory_seq_rm(memory, free + c, 0, -1)
        return finite

    def _prefill(self, prompts: Sequence[Ids]) -> list[Any]:
        """Logits behind each prompt, which is sequence 0, 1, 2, ... from here on."""
        memory = self._lib.llama_get_memory(self._context)
        self._lib.llama_memory_clear(memory, False)
        shared = shared_prefix(prompts)
        if shared:
            self._decode([(t, p, 0, False) for p, t in enumerate(prompts[0][:shared])])
            for k in range(1, len(prompts)):
                self._lib.llama_memory_seq_cp(memory, 0, k, 0, shared)
        return self._decode(
            [
                (token, position, k, position == len(prompt) - 1)
                for k, prompt in enumerate(prompts)
                for position, token in enumerate(prompt)
                if position >= shared
            ]
        )

    def _decode(self, tokens: Sequence[_Token]) -> list[Any]:
        """The logits that are wanted, in order."""
        found: list[Any] = []
        for part in _parts(tokens):
            _fill(self._batch, part)
            if self._lib.llama_decode(self._context, self._batch) != 0:
                raise PeerMissing("llama_decode failed: its context is too small")
            self._computed += len(part)
            rows = sum(wanted for *_, wanted in part)
            if rows:
                pointer = self._lib.llama_get_logits(self._context)
                found += list(np.ctypeslib.as_array(pointer, (rows, self._vocab)).copy())
        return found

    def _new_context(self, recording: Recording, parallel: int, widest: int) -> Any:
        params = self._lib.llama_context_default_params()
        lengths = [
            len(call.prompt) + call.num_new + sum(map(len, call.choices))
            for call in recording.calls
        ]
        params.n_ctx = 512 + sum(sorted(lengths)[-parallel:])
        params.n_batch, params.n_ubatch = _BATCH, 512
        params.n_seq_max = min(_SEQUENCES, min(parallel, len(lengths)) + max(1, widest))
        params.n_threads = params.n_threads_batch = self._inner._threads
        params.kv_unified = params.no_perf = True
        context = self._lib.llama_init_from_model(self._inner._model, params)
        if not context:
            raise PeerMissing(f"llama.cpp made no context of {params.n_ctx:,} tokens")
        return context


def _parts(tokens: Sequence[_Token]) -> list[Sequence[_Token]]:
    """Pieces of at most `_BATCH` tokens and `_LOGITS` wanted rows."""
    parts: list[Sequence[_Token]] = []
    first = rows = 0
    for i, (*_, wanted) in enumerate(tokens):
        if i - first == _BATCH or rows + wanted > _LOGITS:
            parts.append(tokens[first:i])
            first, rows = i, 0
        rows += wanted
    if first < len(tokens):
        parts.append(tokens[first:])
    return parts


def _logprob(logits: Any, token: int) -> float:
    top = logits.max()
    return float(logits[token] - top - np.log(np.exp(logits - top).sum()))
