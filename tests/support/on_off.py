"""The same gens under several settings of the engine, over any tokenizer: nothing may differ."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from support.local import gen, run, stream
from support.shared_model import SharedModel

from sgc_ir.errors import BackendError, ConstraintError
from sgc_ir.params import CallResult
from sgc_runtime.backends.local import LocalBackend
from sgc_runtime.model.loader import LoadedModel, load_model
from sgc_runtime.tokenizer.tokenizer import Tokenizer

SHARED = Path(os.environ.get("SGC_SHARED", Path(__file__).resolve().parents[3] / "shared"))
NATS = 1e-4  # by how much a log-probability may differ through rounding,
MASS = 1e-3  # and a sum over the tokens of a text


@dataclass(frozen=True)
class Asked:
    """One gen: its name for messages, prompt, parameters and seed."""

    name: str
    prompt: str
    params: dict[str, Any]
    seed: int = 0


@dataclass
class Answer:
    """What came of it: a result, or the refusal of its constraint; and the streamed text."""

    result: CallResult | ConstraintError | None = None
    pieces: list[str] = field(default_factory=list)

    @property
    def forced(self) -> int:
        return self.result.usage.forced_tokens if isinstance(self.result, CallResult) else 0


def read_cases(name: str) -> list[dict[str, Any]]:
    """Lines of a file of the folder that SGC_SHARED names; skips where it is absent."""
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"the cases are not here: {name}")
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def tiny_model(tokenizer: Tokenizer, folder: Path, seed: int = 0) -> LoadedModel:
    """A random two-layer Llama in float32 that chooses among all ids of `tokenizer`."""
    random_llama(tokenizer, folder, seed)
    return load_model(folder, "float32", "cpu")


def random_llama(tokenizer: Tokenizer, folder: Path, seed: int = 0, head_dim: int = 8) -> None:
    """Save such a model."""
    eos = min(tokenizer.eos_ids)
    config = transformers.LlamaConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=4 * head_dim,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        bos_token_id=None,
        eos_token_id=eos,
        pad_token_id=0,
        tie_word_embeddings=True,
    )
    torch.manual_seed(seed)
    model = transformers.LlamaForCausalLM(config)
    with torch.no_grad():  # wide logits, few near ties
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(folder)


def answer_all(
    model: LoadedModel, tokenizer: Tokenizer, asked: Sequence[Asked], batch: int, **options: Any
) -> tuple[list[Answer], dict[str, Any]]:
    """What comes of each gen, at most `batch` at a time on an engine of their own, and its
    counters; the engine keeps nothing of them."""

    async def main(owner: SharedModel) -> list[Answer]:
        places = asyncio.Semaphore(batch)
        answers = [Answer() for _ in asked]

        async def one(call: Asked, answer: Answer) -> None:
            async with places:
                await _answer(owner, call, answer)

        await asyncio.gather(*map(one, asked, answers))
        core = (await owner.engine()).engine.core
        core.cache.check()
        assert core.cache.referenced == 0
        return answers

    given = {"kv_tokens": 12_000, **options}
    with SharedModel(model, "shared", tokenizer, **given) as owner:
        found = run(lambda: main(owner), limit_s=3600)
        return found, dict(owner.stats())


async def _answer(owner: LocalBackend, call: Asked, answer: Answer) -> None:
    on, take = stream(owner, call.prompt), answer.pieces.append
    try:
        answer.result = await gen(on, seeds=(call.seed,), on_text=take, **call.params)
    except BackendError as error:
        if not isinstance(error.__cause__, ConstraintError):
            raise
        answer.result = error.__cause__


def differences(
    asked: Sequence[Asked],
    expected: Sequence[Answer],
    found: Sequence[Answer],
    nats: float = NATS,
) -> list[str]:
    """One line a gen of which more differs than rounding explains: of log-probabilities `nats`.

    A constraint that takes about as much processor time as one may can be refused for it once and
    not another time; see `num_limited`.
    """
    lines = []
    for call, one, other in zip(asked, expected, found, strict=True):
        what = list(_unequal(one, other, nats))
        if what:
            lines.append(f"{call.name} {call.params}: " + "; ".join(what))
    return lines


def num_limited(answers: Sequence[Answer]) -> int:
    """Gens that were refused for the time that their constraint takes."""
    return sum(map(_is_limited, answers))


def _is_limited(answer: Answer) -> bool:
    return isinstance(answer.result, ConstraintError) and answer.result.kind == "limit"


def _unequal(one: Answer, other: Answer, nats: float) -> Iterator[str]:
    a, b = one.result, other.result
    if _is_limited(one) or _is_limited(other):
        return
    if not (isinstance(a, CallResult) and isinstance(b, CallResult)):
        if (type(a), str(a)) != (type(b), str(b)):
            yield f"{a} != {b}"
        return
    if "".join(one.pieces) != a.text or "".join(other.pieces) != b.text:
        yield f"streamed {one.pieces} and {other.pieces} for {a.text!r}"
    for name in ("text", "finish_reason", "matched", "complete", "pending", "residual"):
        if getattr(a, name) != getattr(b, name):
            yield f"{name} {getattr(a, name)!r} != {getattr(b, name)!r}"
    if list(a.token_ids) != list(b.token_ids):
        yield f"ids {list(a.token_ids)} != {list(b.token_ids)}"
    if a.rolled_back != b.rolled_back or _counts(a) != _counts(b):
        yield f"counts {a.rolled_back}, {_counts(a)} != {b.rolled_back}, {_counts(b)}"
    yield from _unlike(dict(a.meta), dict(b.meta), "meta", nats)


def _counts(result: CallResult) -> tuple[int, ...]:
    usage = result.usage
    return (usage.prompt_tokens, usage.completion_tokens, usage.forced_tokens, usage.scored_tokens)


def _unlike(one: Any, other: Any, where: str, nats: float) -> Iterator[str]:
    """Where two plain values differ; numbers may by rounding."""
    if isinstance(one, float) and isinstance(other, float):
        if abs(one - other) > (MASS if where.endswith("allowed_mass") else nats):
            yield f"{where} {one} != {other}"
    elif isinstance(one, dict) and isinstance(other, dict) and list(one) == list(other):
        for name in one:
            yield from _unlike(one[name], other[name], f"{where}.{name}", nats)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for place, pair in enumerate(zip(one, other, strict=True)):
            yield from _unlike(*pair, f"{where}[{place}]", nats)
    elif one != other:
        yield f"{where} {one!r} != {other!r}"
