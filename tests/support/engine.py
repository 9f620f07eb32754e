"""A model whose logits are a function of the token history that it reads out of the KV, and what
else engine tests share."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from sgc_ir.params import SamplingParams
from sgc_runtime.cache.kv_pool import KVPool
from sgc_runtime.cache.radix_tree import Ids
from sgc_runtime.engine.config import EngineConfig
from sgc_runtime.engine.core import EngineCore
from sgc_runtime.engine.host_runner import HostRunner
from sgc_runtime.engine.output import OutputWatcher
from sgc_runtime.engine.request import Outcome, Prefix, Request, State
from sgc_runtime.engine.scoring import Scoring
from sgc_runtime.engine.token_trie import TokenTrie
from sgc_runtime.executor.backend import ChatTemplate, Text
from sgc_runtime.executor.chatml import ChatML
from sgc_runtime.model.forward import ForwardBatch, KVTensors
from sgc_runtime.sampling.row import SamplingRow
from sgc_runtime.sampling.sampler import sample

VOCAB = 50


def logits_after(history: Sequence[int], vocab: int = VOCAB) -> np.ndarray:
    """`[vocab]` float32: any other history gives other logits."""
    seed = hash(tuple(int(t) for t in history)) & 0xFFFFFFFF
    return np.random.default_rng(seed).standard_normal(vocab).astype(np.float32) * 3


class HistoryModel:
    """Writes token and position into the KV, and reads the whole history back from there, so
    that a slot that is wrong, stale or not yet written shows in the logits."""

    def __init__(self, vocab: int = VOCAB) -> None:
        self.vocab = vocab
        self.steps: list[int] = []  # tokens computed in each step
        self.fail_at: int | None = None

    def forward(self, batch: ForwardBatch, kv: KVTensors) -> torch.Tensor:
        self.steps.append(len(batch.input_ids))
        if self.fail_at == len(self.steps):
            raise RuntimeError("out of paper")
        kv.k[0][batch.out_slots, 0, 0] = batch.input_ids.float()
        kv.v[0][batch.out_slots, 0, 0] = batch.positions.float()
        rows = [self._row(batch, kv, int(r)) for r in batch.logit_rows]
        return torch.from_numpy(np.stack(rows)) if rows else torch.empty(0, self.vocab)

    def _row(self, batch: ForwardBatch, kv: KVTensors, row: int) -> np.ndarray:
        qo, ranges = batch.qo_indptr.tolist(), batch.kv_indptr.tolist()
        b = next(i for i in range(len(qo) - 1) if qo[i] <= row < qo[i + 1])
        end = ranges[b + 1] if batch.kv_ends is None else int(batch.kv_ends[b])
        slots = batch.kv_slots[ranges[b] : end]
        length = len(slots) - (qo[b + 1] - 1 - row)
        positions = kv.v[0][slots[:length], 0, 0].long()
        assert positions.tolist() == list(range(length)), "KV of other positions"
        return logits_after(kv.k[0][slots[:length], 0, 0].long().tolist(), self.vocab)


@dataclass
class Letters:
    """One id a letter; ids 0 and 1 are control tokens: EOS and BOS."""

    calls: int = 0
    vocab_size: int = VOCAB
    bos_id: int | None = None
    eos_ids: frozenset[int] = frozenset({0})
    end_of_turn_ids: frozenset[int] = frozenset({0})
    control_ids: frozenset[int] = frozenset({0, 1})
    control_texts: dict[int, str] = field(default_factory=lambda: {0: "<e>", 1: "<b>"})
    chat_template: ChatTemplate = field(default_factory=ChatML)

    def encode(self, text: str, *, start: bool = True) -> list[int]:
        return self.encode_pieces((Text(text),), start=start)

    def encode_pieces(self, pieces: Sequence[Text], *, start: bool = True) -> list[int]:
        self.calls += 1
        return [ord(c) - 63 for p in pieces for c in p.text]

    def at_start(self, before: Sequence[int]) -> bool:
        return False

    def token_bytes(self, token_id: int) -> bytes:
        return b"" if token_id < 2 else chr(token_id + 63).encode()


def make_core(
    num_slots: int = 400, model: HistoryModel | None = None, **config: object
) -> EngineCore:
    kv = KVPool(1, num_slots, 1, 1, torch.float32, torch.device("cpu"))
    settings = EngineConfig(kv_tokens=num_slots, **config)  # type: ignore[arg-type]
    return EngineCore(HostRunner(model or HistoryModel(), kv), settings)


class Ask:
    """A request and what became of it."""

    def __init__(
        self,
        prompt: Sequence[int],
        params: SamplingParams | None = None,
        *,
        seed: int = 0,
        score_from: int = 0,
        choices: Sequence[Sequence[int]] = (),
        alone: Sequence[Sequence[int]] = (),
        best: int = 0,
        prefix: Prefix | None = None,
    ) -> None:
        self.params = params or SamplingParams(temperature=0, max_tokens=8)
        self.prompt, self.seed = list(prompt), seed
        self.choices, self.alone = [list(c) for c in choices], [list(a) for a in alone]
        self.best = best
        if score_from:
            self.prompt, self.choices = self.prompt[:score_from], [self.prompt[score_from:]]
        self.outcome: Outcome | None = None
        self.pieces: list[str] = []
        vocabulary = Letters()
        watcher = row = scoring = None
        ids = np.array(self.prompt, np.int32)
        if self.choices:
            trie = TokenTrie(ids, _arrays(self.choices), _arrays(self.alone))
            scoring, ids = Scoring(trie, choose=lambda logprobs: best), trie.tokens
        else:
            watcher = OutputWatcher(
                self.params, vocabulary, vocabulary.eos_ids, on_text=self.pieces.append
            )
            row = SamplingRow(self.params, seed, prompt, watcher.held_back())
        self.request = Request(
            ids,
            on_done=self._done,
            row=row,
            watcher=watcher,
            scoring=scoring,
            prefix=prefix,
            call_prompt=len(self.prompt),
        )

    def _done(self, request: Request, outcome: Outcome) -> None:
        assert request is self.request
        assert self.outcome is None, "answered twice"
        self.outcome = outcome

    @property
    def output(self) -> list[int]:
        return [int(t) for t in self.request.output]

    def check(self) -> None:
        """The result is what a plain loop without any cache gives."""
        assert self.outcome is not None, "no answer"
        assert self.outcome.error is None
        if self.request.scoring is not None:
            self._check_scores(self.request.scoring)
            return
        expected = plain_generation(self.prompt, self.params, self.seed)
        watcher = self.request.watcher
        assert watcher is not None
        assert self.output == expected
        assert "".join(self.pieces) == watcher.text

    def _check_scores(self, scoring: Scoring) -> None:
        trie, found = scoring.trie, scoring.logprobs
        for i, choice in enumerate(self.choices):
            expected = plain_logprobs(self.prompt, choice)
            assert np.allclose(trie.logprobs_behind(i, found), expected, atol=1e-5)
        for i, ids in enumerate(self.alone):
            assert np.allclose(trie.logprobs_alone(i, found), plain_logprobs([], ids), atol=1e-5)


def plain_logprobs(prompt: Sequence[int], ids: Sequence[int]) -> list[float]:
    """Of each of `ids` behind `prompt`, one whole history at a time; without any, it is 0."""
    out = []
    for n in range(len(ids)):
        before = [*prompt, *ids[:n]]
        logp = torch.from_numpy(logits_after(before)).double().log_softmax(0)
        out.append(float(logp[ids[n]]) if before else 0.0)
    return out


def _arrays(sequences: Sequence[Sequence[int]]) -> list[Ids]:
    return [np.array(ids, np.int32) for ids in sequences]


def plain_generation(prompt: Sequence[int], params: SamplingParams, seed: int) -> list[int]:
    """The sampled ids, one whole history at a time."""
    vocabulary = Letters()
    watcher = OutputWatcher(params, vocabulary, vocabulary.eos_ids)
    row = SamplingRow(params, seed, prompt, watcher.held_back())
    out: list[int] = []
    while True:
        logits = torch.from_numpy(logits_after([*prompt, *out]))[None]
        token = sample(logits, [row]).ids[0]
        row.advance(token)
        out.append(token)
        if watcher.push(token):
            return out


def check_memory(core: EngineCore) -> None:
    """free + cached + referenced = pool size, and every slot is in one place."""
    owned = [
        r.slots[r.node.end : r.num_slots] for r in core.scheduler.in_flight if r.node is not None
    ]
    core.cache.check(owned or [np.empty(0, np.int64)])


def run_all(core: EngineCore, asks: Sequence[Ask]) -> None:
    """Add all, step until idle, checking memory after each step."""
    for ask in asks:
        core.add(ask.request)
    while core.step():
        check_memory(core)
    check_memory(core)
    assert core.cache.referenced == 0


def run_with_arrivals(core: EngineCore, rng: random.Random, asks: Sequence[Ask]) -> set[Ask]:
    """Run `asks`, last first, arriving and cancelled at random, with the laws of memory checked
    after each step; gives those that were cancelled."""
    waiting, cancelled = list(asks), set()
    while waiting or not core.scheduler.idle:
        for _ in range(rng.randrange(3) if waiting else 0):
            if waiting:
                core.add(waiting.pop().request)
        started = [a for a in asks if a.request.state not in (State.NEW, State.DONE)]
        if started and rng.random() < 0.05:
            victim = rng.choice(started)
            core.cancel(victim.request)
            cancelled.add(victim)
        core.step()
        check_memory(core)
    assert core.cache.referenced == 0
    return cancelled
