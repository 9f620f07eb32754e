"""Constrained gens on the local engine, and what they should give, one whole prompt at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import regex
import torch
import transformers
from support.jumps import Bench, Trace, settle
from support.local import backend, gen, stream

from sgc_ir.automata.regex import regex_automaton
from sgc_ir.params import CallResult
from sgc_runtime.constraints.matcher import Matcher
from sgc_runtime.tokenizer.tokenizer import Tokenizer, load_tokenizer

REGEXES = (
    r'\{"name": "[a-z]{1,12}", "age": [0-9]{1,3}\}',
    "The answer is (yes|no)",
    "abc",
    r"[a-z ]{1,20}\.",
    r"(foo|bar) [0-9]{2}, (foo|bar)",
    r"(the|quick|brown)( (fox|dog|lazy)){2,4}!",
    r'"[^"]{0,8}", "key": (true|false)',
    "日本語です|日本酒です",
    "😀😁|😀😂",
    r"(?ai)paris( is the capital)?",
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}",
    "a*",
    r"(a|b|ab)*c",
    r"What is .{3,10}\?",
)
TEMPLATES = (0, 1, 2, 4, 6, 7, 8, 10, 13)  # each of these forces something
PROMPTS = ("The quick brown", "answer the question:", "héllo", "In 2024")


@dataclass
class Asked:
    """One gen, its result and its streamed text."""

    pattern: str
    params: dict[str, Any]
    seed: int = 0
    result: CallResult | None = None
    pieces: list[str] = field(default_factory=list)

    async def run(self, owner: Any) -> None:
        on = stream(owner, PROMPTS[self.seed % len(PROMPTS)])
        found = self.pieces.append
        self.result = await gen(
            on, regex=self.pattern, seeds=(self.seed,), on_text=found, **self.params
        )

    @property
    def summary(self) -> tuple[object, ...]:
        """All that no setting may change, but for what `numbers` holds."""
        r = self.result
        assert r is not None
        meta = {name: value for name, value in r.meta.items() if name != "allowed_mass"}
        meta["logprobs"] = [{**x, "logprob": None} for x in meta.get("logprobs", ())]
        meta["top_logprobs"] = [[x["id"] for x in tops] for tops in meta.get("top_logprobs", ())]
        u = r.usage
        counts = (u.prompt_tokens, u.completion_tokens, u.forced_tokens)
        ends = (r.finish_reason, r.matched, r.complete, r.pending, r.residual)
        return (self.pattern, r.text, tuple(r.token_ids), ends, counts, str(meta))

    @property
    def numbers(self) -> list[float]:
        """Logarithms of probabilities, which may be rounded otherwise."""
        assert self.result is not None
        meta = self.result.meta
        return [meta["allowed_mass"], *(x["logprob"] for x in meta.get("logprobs", ()))]


def asked(settings: Iterable[dict[str, Any]], max_tokens: int = 24) -> list[Asked]:
    """Each pattern under each of `settings`."""
    return [
        Asked(pattern, {"max_tokens": max_tokens, **params}, seed)
        for params in settings
        for seed, pattern in enumerate(REGEXES)
    ]


def answer_all(folder: Path, calls: Sequence[Asked], batch: int, **options: Any) -> dict[str, Any]:
    """Run all calls, at most `batch` at a time, on a backend of their own; its counters."""

    async def main() -> dict[str, Any]:
        with backend(folder, **options) as owner:
            places = asyncio.Semaphore(batch)

            async def one(call: Asked) -> None:
                async with places:
                    await call.run(owner)

            await asyncio.gather(*map(one, calls))
            core = (await owner.engine()).engine.core
            core.cache.check()
            assert core.cache.referenced == 0
            return dict(owner.stats())

    return asyncio.run(main())


class Oracle:
    """Greedy text by transformers: at each id the whole prompt anew, the mask by trying every
    token of the vocabulary with the `regex` package."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer: Tokenizer = load_tokenizer(folder)
        self._model = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self._bench = Bench(self._tokenizer)

    def greedy(self, prompt: str, pattern: str, max_tokens: int) -> list[int]:
        """Ids without EOS."""
        matcher = Matcher(self._bench.planner(regex_automaton(pattern)))
        asked = self._tokenizer.encode(prompt)
        legal = Legal(pattern, self._tokenizer)
        settle(self._bench, matcher, Trace())
        while len(matcher.ids) < max_tokens and not matcher.is_final:
            best = self._best(asked, matcher, legal)
            if best in self._tokenizer.eos_ids:
                break
            matcher.accept(best)
            settle(self._bench, matcher, Trace())
        return matcher.ids[:max_tokens]

    def _best(self, asked: list[int], matcher: Matcher, legal: Legal) -> int:
        with torch.inference_mode():
            logits = self._model(torch.tensor([asked + matcher.ids])).logits[0, -1].numpy()
        text = self._bench.text(matcher.ids)
        allowed = legal.tokens(text)
        if legal.complete(text):
            allowed += list(self._tokenizer.eos_ids)
        order = sorted(allowed, key=lambda token: -float(logits[token]))
        for token in order:
            if token in self._tokenizer.eos_ids or matcher.is_canonical(token) is not False:
                return token
        return order[0]


class Legal:
    """What a pattern allows, found out by trying."""

    def __init__(self, pattern: str, tokenizer: Tokenizer) -> None:
        self._pattern = regex.compile(pattern)
        self._tokenizer = tokenizer

    @cached_property
    def _tokens(self) -> list[tuple[int, bytes]]:
        known = self._tokenizer
        return [(t, d) for t in range(known.vocab_size) if (d := known.token_bytes(t))]

    def complete(self, text: bytes) -> bool:
        try:
            return self._pattern.fullmatch(text.decode()) is not None
        except UnicodeDecodeError:
            return False

    def begins(self, data: bytes) -> bool:
        """Whether some legal text begins with `data`, tried with every character that its last
        bytes can begin."""
        return any(
            self._pattern.fullmatch(text, partial=True) is not None for text in _completions(data)
        )

    def tokens(self, text: bytes) -> list[int]:
        return [token for token, data in self._tokens if self.begins(text + data)]


_SAMPLES = "日本語酒です😀😁😂"


def _completions(data: bytes) -> list[str]:
    """Texts that begin with `data`, which may end inside a character."""
    try:
        return [data.decode()]
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data":
            return []
        whole, rest = data[: error.start].decode(), data[error.start :]
    return [whole + c for c in _SAMPLES if c.encode().startswith(rest)] + [
        whole + (rest + more).decode()
        for count in (1, 2, 3)
        for more in map(bytes, product((0x80, 0x90, 0xA5, 0xBF), repeat=count))
        if _is_text(rest + more)
    ]


def _is_text(data: bytes) -> bool:
    try:
        return bool(data.decode())
    except UnicodeDecodeError:
        return False
