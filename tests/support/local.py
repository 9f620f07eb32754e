"""Local backends over tiny random models, and calls on them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from support.tokenizer import KINDS, save_directory

from sgc_ir.params import CallResult, SamplingParams
from sgc_runtime.backends.local import LocalBackend, LocalStream
from sgc_runtime.executor.backend import Call, Text

GREEDY = {"temperature": 0.0}
WORDS = "the quick brown fox jumps over lazy dog What is capital of France Paris answer".split()


def tiny_folder(folder: Path, kind: str = "smollm", seed: int = 0) -> Path:
    """A random two-layer Llama beside a freshly trained tokenizer."""
    tokenizer = next(k for k in KINDS if k.name == kind)
    data = save_directory(tokenizer, folder)
    vocab = max([*data["model"]["vocab"].values(), *(t["id"] for t in data["added_tokens"])]) + 1
    eos = next(
        t["id"] for t in data["added_tokens"] if t["content"] == tokenizer.config["eos_token"]
    )
    config = transformers.LlamaConfig(
        vocab_size=vocab,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        bos_token_id=None,
        eos_token_id=eos,
        pad_token_id=0,
    )
    torch.manual_seed(seed)
    model = transformers.LlamaForCausalLM(config)
    with torch.no_grad():  # wide logits: no near ties that rounding could turn
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(folder)
    return folder


def run(main: Callable[[], Awaitable[Any]], limit_s: float = 120) -> Any:
    async def bounded() -> Any:
        return await asyncio.wait_for(main(), limit_s)

    return asyncio.run(bounded())


@contextmanager
def backend(folder: Path | str, **options: Any) -> Iterator[LocalBackend]:
    made = LocalBackend(folder, **{"dtype": "float32", "kv_tokens": 4000, **options})
    try:
        yield made
    finally:
        made.close()


def stream(owner: LocalBackend, text: str = "") -> LocalStream:
    opened: Any = owner.open()  # a test that looks at ids or pieces has a LocalBackend
    if text:
        opened.append([Text(text)])
    found: LocalStream = opened
    return found


async def gen(
    on: LocalStream, *, seeds: Sequence[int] = (0,), end_of_turn: bool = False, **params: Any
) -> CallResult:
    on_text = params.pop("on_text", None)
    values = SamplingParams(**{**GREEDY, "max_tokens": 8, **params})
    call = Call("g0", "", 0, values, tuple(seeds), end_of_turn=end_of_turn, on_text=on_text)
    return (await on.generate(call))[0]


async def select(on: LocalStream, choices: Sequence[str], method: str | None = None) -> CallResult:
    params = SamplingParams(choices=tuple(choices), **({"method": method} if method else {}))
    return await on.select(Call("g0", "", 0, params, (0,)))


def greedy_ids(
    model: transformers.PreTrainedModel, prompt: list[int], num: int, eos: bool = True
) -> list[int]:
    """What transformers generates behind `prompt`, without EOS."""
    end = model.config.eos_token_id
    with torch.inference_mode():
        out = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.int64),
            max_new_tokens=num,
            do_sample=False,
            eos_token_id=end if eos else None,
            pad_token_id=0,
        )
    ids: list[int] = out[0, len(prompt) :].tolist()
    return ids[: ids.index(end)] if eos and end in ids else ids


def prompts(num: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    shared = " ".join(rng.choices(WORDS, k=20))
    return [shared + " " + " ".join(rng.choices(WORDS, k=rng.randrange(1, 12))) for _ in range(num)]


async def answers(owner: LocalBackend, texts: list[str], **params: Any) -> list[Any]:
    """Generated ids of all texts, sent together."""
    rows = [gen(stream(owner, text), **params) for text in texts]
    return [result.token_ids for result in await asyncio.gather(*rows)]
