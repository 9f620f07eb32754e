"""Requests of all kinds over one small tokenizer, run together in one engine core or each alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from support.engine import HistoryModel, check_memory, make_core
from support.jumps import Bench, bpe_tokenizer

from sgc_ir.automata.regex import regex_automaton
from sgc_ir.params import SamplingParams
from sgc_runtime.constraints.jump import Planner
from sgc_runtime.constraints.matcher import Matcher
from sgc_runtime.engine.core import EngineCore
from sgc_runtime.engine.guide import Guide
from sgc_runtime.engine.output import OutputWatcher
from sgc_runtime.engine.request import Outcome, Request, State
from sgc_runtime.engine.scoring import Scoring
from sgc_runtime.engine.slices import Slices, _Aside
from sgc_runtime.engine.token_trie import TokenTrie
from sgc_runtime.sampling.row import SamplingRow

WORDS = ["ab", "bc", "abc", "aa", "th", "the", " the", "ye", "yes", " a", '":', '": ', "an", "and"]
_VOCAB = 260 + len(WORDS)
PATTERNS = (
    "[a-c]{1,8}",
    "(abc|abab){1,3}d",
    "The answer is (yes|no)",
    r'\{"a": [0-9]{1,2}, "the": (true|false)\}',
    "(aa)*b?",
    "constant",
    "(the|a) (cat|dog) and (the|a) (cat|dog)",
    "[^x]{2,7}",
)
PARAMS: tuple[dict[str, Any], ...] = (
    {"temperature": 0.0},
    {"temperature": 1.0},
    {"temperature": 0.0, "logprobs": True, "top_logprobs": 2},
    {"temperature": 0.9, "top_p": 0.8, "top_k": 9, "logprobs": True},
    {"temperature": 0.8, "frequency_penalty": 0.5, "presence_penalty": 0.2},
    {"temperature": 0.0, "repetition_penalty": 1.4},
    {"temperature": 1.0, "min_tokens": 3, "stop": ("a", "Q")},
    {"temperature": 0.0, "ignore_eos": True},
    {"temperature": 1.0, "stop_regex": ("[0-9]b|c+",)},
    {"temperature": 0.5, "stop_token_ids": (70, 71, 72, 99, 101)},
    {"temperature": 0.0, "logit_bias": {"4": 3.0, "101": 9.0, "262": 8.0}},
    {"temperature": 0.0, "logit_bias": {str(i): float("-inf") for i in range(_VOCAB)}},
)


@dataclass(frozen=True)
class Wish:
    """What is asked for; any number of requests can be made of it."""

    prompt: tuple[int, ...]
    params: SamplingParams
    seed: int = 0
    pattern: str | None = None
    choices: tuple[tuple[int, ...], ...] = ()


@dataclass
class Answer:
    """What became of it: all that no setting may change."""

    error: str | None = None
    complete: bool = True
    ids: list[int] = field(default_factory=list)
    text: str = ""
    ends: tuple[object, ...] = ()
    forced: list[bool] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)  # logarithms, which may be rounded otherwise

    def check(self, other: Answer, error: float = 1e-5) -> None:
        assert replace(self, numbers=[]) == replace(other, numbers=[])
        assert np.allclose(self.numbers, other.numbers, atol=error)


class Mix:
    """A tokenizer, a model over it, and plans of the patterns."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = bpe_tokenizer(folder, WORDS)
        self._bench = Bench(self.tokenizer)
        self._planners: dict[str, Planner] = {}

    @property
    def vocab(self) -> int:
        return self.tokenizer.vocab_size

    def wish(self, rng: random.Random, roots: Sequence[Sequence[int]], longest: int) -> Wish:
        """One at random."""
        prompt = list(rng.choice(roots)[: rng.randrange(1, 25)])
        prompt += [rng.randrange(4, self.vocab) for _ in range(rng.randrange(0, 5))]
        params = SamplingParams(max_tokens=rng.randrange(1, longest), **rng.choice(PARAMS))
        made = Wish(tuple(prompt), params, rng.randrange(2**40))
        kind = rng.random()
        if kind < 0.15:
            num = rng.randrange(1, 4)
            ids = [
                tuple(rng.randrange(4, 9) for _ in range(rng.randrange(1, 4))) for _ in range(num)
            ]
            return replace(made, choices=tuple(ids))
        return replace(made, pattern=rng.choice(PATTERNS)) if kind < 0.6 else made

    def core(self, num_slots: int = 4000, **config: Any) -> EngineCore:
        return make_core(num_slots, HistoryModel(self.vocab), **config)

    def alone(self, wish: Wish) -> Answer:
        """What comes of it alone, one step after the other."""
        core, asked = self.core(), Asked(self, wish)
        core.add(asked.request)
        while core.step():
            pass
        return asked.answer()

    def guide(self, pattern: str, row: SamplingRow, watcher: OutputWatcher, jump: bool) -> Guide:
        if pattern not in self._planners:
            self._planners[pattern] = self._bench.planner(regex_automaton(pattern))
        matcher = Matcher(self._planners[pattern])
        row.rule, row.end_ids = matcher, frozenset(watcher.end_ids)
        return Guide(matcher, jump, row.max_new)


class Asked:
    """A request of a wish, and what became of it."""

    def __init__(self, mix: Mix, wish: Wish, jump: bool = True) -> None:
        self.wish = wish
        self.outcome: Outcome | None = None
        self.pieces: list[str] = []
        ids = np.array(wish.prompt, np.int32)
        row = watcher = guide = scoring = None
        if wish.choices:
            trie = TokenTrie(ids, [np.array(c, np.int32) for c in wish.choices])
            scoring, ids = Scoring(trie, lambda found: int(np.argmax(found)) % 2), trie.tokens
            if len(wish.choices) == 1:
                scoring = Scoring(trie, lambda found: 0)
        else:
            eos = mix.tokenizer.eos_ids
            watcher = OutputWatcher(
                wish.params,
                mix.tokenizer,
                eos,
                on_text=self.pieces.append,
                bound=wish.pattern is not None,
            )
            row = SamplingRow(wish.params, wish.seed, wish.prompt, watcher.held_back())
            if wish.pattern is not None:
                guide = mix.guide(wish.pattern, row, watcher, jump)
        self.request = Request(
            ids,
            on_done=self._done,
            row=row,
            watcher=watcher,
            guide=guide,
            scoring=scoring,
            call_prompt=len(wish.prompt),
        )

    def _done(self, request: Request, outcome: Outcome) -> None:
        assert self.outcome is None, "answered twice"
        self.outcome = outcome

    def answer(self) -> Answer:
        request, outcome = self.request, self.outcome
        assert outcome is not None, "no answer"
        if outcome.error is not None:
            return Answer(error=str(outcome.error))
        if request.scoring is not None:
            return Answer(numbers=list(request.scoring.logprobs))
        watcher, row = request.watcher, request.row
        assert watcher is not None
        assert row is not None
        assert "".join(self.pieces) == watcher.text
        found = [p for p in request.logprobs if p is not None]
        assert len(found) == (len(request.output) if row.wants_logprobs else 0)
        tops = [token for one in found for token, _ in one.top]
        return Answer(
            None,
            outcome.complete,
            request.output.tolist(),
            watcher.text,
            (watcher.finish_reason, watcher.matched, watcher.num_tokens, row.num_masked, tops),
            list(request.forced),
            [row.allowed_mass, *(one.logprob for one in found)],
        )


class FallingAside:
    """Puts the work of requests off to later steps, at random, whatever it takes."""

    def __init__(self, rng: random.Random, share: float) -> None:
        self._rng, self._share, self._inner = rng, share, Slices._is_done
        self.times = 0

    def __call__(self, slices: Slices, entry: _Aside, seconds: float) -> bool:
        if self._rng.random() < self._share:
            self.times += 1
            return False
        return self._inner(slices, entry, 60.0)


def run_mix(core: EngineCore, rng: random.Random, asked: Sequence[Asked]) -> set[Asked]:
    """Run all, last first, arriving and cancelled at random, with the laws of memory checked after
    each step; gives those that were cancelled."""
    waiting, cancelled = list(asked), set()
    busy = True
    while waiting or busy:
        for _ in range(rng.randrange(3)):
            if waiting:
                core.add(waiting.pop().request)
        started = [a for a in asked if a.request.state not in (State.NEW, State.DONE)]
        if started and rng.random() < 0.03:
            cancelled.add(rng.choice(started))
            core.cancel(next(a for a in started if a in cancelled).request)
        busy = core.step()
        check_memory(core)
    assert core.cache.referenced == 0
    assert not any(a.request.pending or a.request.ahead for a in asked)
    return cancelled
