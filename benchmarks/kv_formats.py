"""What keeping keys and values in 8 bits costs in exactness, beside 16 bits.

    python -m benchmarks.kv_formats [--model M] [--device cuda] [--dtype bfloat16]

The model computes in `--dtype` with its keys and values in the same format (`16 bits`), in e4m3 as
`kv_dtype=fp8` keeps them (`fp8`), and in e4m3 without the powers of two that bring them into its
range (`fp8, no factors`). On a GPU with its kernels, on a CPU with the references in torch.

Part `logits`: all positions of a text at once, against the model in float32: mean and largest
difference of the logits, divergence of the distributions in nats, the same likeliest token; and
against 16 bits. Part `greedy`: 64 tokens behind each of 8 prompts, decoded greedily, beside those
of 16 bits: texts that are equal, and equal tokens before the first that is not.
"""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.conditions import cores, use_threads
from benchmarks.common.refusals import check_device, refusing
from benchmarks.common.results import ResultFile, default_path, result_path

_TEXTS = Path(__file__).resolve().parents[1] / "programs" / "data" / "essays.jsonl"
PROMPTS = (
    "The capital of France is",
    "Once upon a time, in a small village by the sea,",
    "def fibonacci(n):\n",
    "Q: What is 17 + 25?\nA:",
    "The three most important inventions of the 19th century were",
    "Dear Sir or Madam,\n\nI am writing to",
    "Water boils at",
    "List of the planets of the solar system:\n1.",
)
_NEW = 64
_FORMATS = ("16 bits", "fp8", "fp8, no factors")


def main(argv: list[str] | None = None) -> None:
    """Measure both parts and write them."""
    args = _arguments(argv)
    use_threads(cores())
    check_device("kv_formats", args.device)
    import torch

    from benchmarks.gpu.gpu_conditions import gpu_conditions
    from sgc_runtime.models import resolve
    from sgc_runtime.tokenizer.tokenizer import load_tokenizer

    device = torch.device(args.device)
    with refusing("kv_formats"):
        path = resolve(args.model)
        tokenizer = load_tokenizer(path)
    text = "\n\n".join(json.loads(line)["essay"] for line in _TEXTS.read_text().splitlines())
    results = ResultFile(
        args.output,
        what="what 8-bit keys and values cost in exactness",
        conditions=gpu_conditions(device),
        model=path.name,
        dtype=args.dtype,
    )

    @functools.cache
    def load(dtype: str, kind: str) -> Any:
        return model_with(path, dtype, device, kind)

    logits = logit_errors(load, args.dtype, tokenizer.encode(text)[: args.tokens])
    results.add(f"logits {device.type}", logits)
    print(json.dumps(logits, indent=1))
    prompts = [tokenizer.encode(prompt) for prompt in PROMPTS]
    greedy = greedy_agreement(load, args.dtype, prompts, args.new)
    results.add(f"greedy {device.type}", greedy)
    print(json.dumps(greedy, indent=1))


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kv_formats")
    parser.add_argument("--model", default="smollm2-135m", help="as in `sgc run --model`")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float16"))
    parser.add_argument("--tokens", type=int, default=1024, help="of the text")
    parser.add_argument("--new", type=int, default=_NEW, help="tokens of a greedy text")
    parser.add_argument("--output", type=result_path, default=default_path("kv_formats"))
    return parser.parse_args(argv)


def model_with(path: Path, dtype: str, device: Any, kind: str) -> Any:
    """The model, which keeps keys and values in one of the formats."""
    import dataclasses

    from sgc_kernels.kv_store import EIGHT_BITS
    from sgc_kernels.select import select_kernels
    from sgc_runtime.model.kv_range import keep_in_eight_bits
    from sgc_runtime.model.loader import load_model

    model = load_model(path, dtype, device, "dense").model
    if device.type == "cpu":  # those that are compiled for it take 16 bits or 32
        model.kernels = select_kernels(device, model.dtype)
    if kind == "fp8":
        keep_in_eight_bits(model)
    elif kind == "fp8, no factors":
        model.shape = dataclasses.replace(model.shape, kv_dtype=EIGHT_BITS)
    return model


def _pool(model: Any, slots: int) -> Any:
    from sgc_runtime.cache.kv_pool import KVPool

    config = model.config
    shape = (config.num_layers, slots, config.num_kv_heads, config.head_dim)
    return KVPool(*shape, model.shape.kept, model.device)


def _step(model: Any, pool: Any, new: Sequence[tuple[int, Sequence[int]]], room: int) -> Any:
    """Logits of all new tokens: for each sequence how many tokens it has and those to add; the
    slots of sequence i begin at `i * room`."""
    import torch

    from sgc_runtime.model.forward import ForwardBatch

    device = model.device
    places = [range(done, done + len(ids)) for done, ids in new]
    counts, lengths = [len(ids) for _, ids in new], [place.stop for place in places]
    first = [i * room for i in range(len(new))]
    slots = [at + p for at, place in zip(first, places, strict=True) for p in place]
    seen = [at + p for at, length in zip(first, lengths, strict=True) for p in range(length)]
    batch = ForwardBatch(
        input_ids=torch.tensor([i for _, ids in new for i in ids], device=device),
        positions=torch.tensor([p for place in places for p in place], device=device),
        out_slots=torch.tensor(slots, device=device),
        qo_indptr=_indptr(counts),
        kv_indptr=_indptr(lengths),
        kv_slots=torch.tensor(seen, device=device),
        logit_rows=torch.arange(sum(counts), device=device),
    )
    return model.forward(batch, pool)


def _indptr(counts: Sequence[int]) -> Any:
    import torch

    return torch.tensor([0, *counts]).cumsum(0).to(torch.int32)


def logit_errors(load: Callable[[str, str], Any], dtype: str, ids: Sequence[int]) -> dict[str, Any]:
    def logits(number_format: str, kind: str) -> tuple[Any, int]:
        model = load(number_format, kind)
        pool = _pool(model, len(ids))
        slot_bytes = 2 * sum(layer[0].numel() * layer.element_size() for layer in pool.k)
        return _step(model, pool, [(0, ids)], len(ids)), slot_bytes

    exact, _ = logits("float32", "16 bits")
    found: dict[str, Any] = {"tokens": len(ids), "logit_std": round(float(exact.std()), 3)}
    plain = None
    for kind in _FORMATS:
        these, slot_bytes = logits(dtype, kind)
        plain = these if plain is None else plain
        found[kind] = {
            "bytes_a_token": slot_bytes,
            "to float32": _compared(these, exact),
            "to 16 bits": _compared(these, plain),
        }
    return found


def _compared(logits: Any, others: Any) -> dict[str, float]:
    difference = (logits - others).abs()
    shares, expected = logits.log_softmax(-1), others.log_softmax(-1)
    divergence = (expected.exp() * (expected - shares)).sum(-1)
    same = (logits.argmax(-1) == others.argmax(-1)).float()
    return {
        "mean": round(float(difference.mean()), 4),
        "max": round(float(difference.max()), 3),
        "divergence": round(float(divergence.mean()), 5),
        "same_top_1": round(float(same.mean()), 4),
    }


def greedy_agreement(
    load: Callable[[str, str], Any], dtype: str, prompts: Sequence[Sequence[int]], new: int
) -> dict[str, Any]:
    exact = _greedy(load("float32", "16 bits"), prompts, new)
    plain = _greedy(load(dtype, "16 bits"), prompts, new)
    found: dict[str, Any] = {"prompts": len(prompts), "tokens": new}
    found["16 bits to float32"] = _agreement(plain, exact)
    for kind in _FORMATS[1:]:
        these = _greedy(load(dtype, kind), prompts, new)
        found[f"{kind} to 16 bits"] = _agreement(these, plain)
        found[f"{kind} to float32"] = _agreement(these, exact)
    return found


def _greedy(model: Any, prompts: Sequence[Sequence[int]], new: int) -> list[list[int]]:
    room = max(map(len, prompts)) + new
    pool = _pool(model, len(prompts) * room)
    texts: list[list[int]] = [[] for _ in prompts]
    done, ids = [0] * len(prompts), [list(prompt) for prompt in prompts]
    for _ in range(new):
        logits = _step(model, pool, list(zip(done, ids, strict=True)), room)
        lasts = [int(end) - 1 for end in _indptr([len(some) for some in ids])[1:]]
        chosen = logits[lasts].argmax(-1).tolist()
        done = [count + len(some) for count, some in zip(done, ids, strict=True)]
        ids = [[token] for token in chosen]
        for text, token in zip(texts, chosen, strict=True):
            text.append(token)
    return texts


def _agreement(texts: list[list[int]], others: list[list[int]]) -> dict[str, float]:
    equal = [
        next((i for i, (a, b) in enumerate(zip(x, y, strict=True)) if a != b), len(x))
        for x, y in zip(texts, others, strict=True)
    ]
    return {
        "equal_texts": sum(n == len(x) for n, x in zip(equal, texts, strict=True)),
        "equal_tokens_before_the_first_other": round(sum(equal) / len(equal), 1),
    }


if __name__ == "__main__":
    main()
