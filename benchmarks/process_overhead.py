"""What a model call costs more when the engine runs in a process of its own.

    python -m benchmarks.process_overhead

The same calls on a `LocalBackend` in this process and on a `ProcessBackend`, on a tiny random model
(2 layers, 32 wide), whose steps take as little as a step can: what differs is the way there and
back. `no step`: gens of 0 tokens, which the engine answers without a step, so that nothing but the
call is measured. `one token`: gens of 1 token, each behind its own text. `text`: gens of 32 tokens
that stream their text, a piece a token. `fork`: forks of one prompt, each with a text and a gen of
1 token. One call at a time, and 64. Where others are computed meanwhile the process may come out
ahead, since its steps need not share an interpreter with those who ask.

Microseconds a call: the least of the repeats' means, since what else ran only adds time. What is
compared takes turns, repeat by repeat. The goal holds for each workload.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common.conditions import conditions, use_threads

use_threads(1)

from benchmarks.common.results import ResultFile, default_path, result_path  # noqa: E402
from benchmarks.common.timing import Timed, interleave  # noqa: E402
from sgc_ir.params import SamplingParams  # noqa: E402
from sgc_runtime.backends.local import LocalBackend  # noqa: E402
from sgc_runtime.backends.process import ProcessBackend  # noqa: E402
from sgc_runtime.executor.backend import Call, Text  # noqa: E402
from sgc_runtime.executor.loop import run_sync  # noqa: E402

GOAL_US = 150.0
AT_A_TIME = (1, 64)
HERE, OWN = "in this process", "in its own process"
OPTIONS: dict[str, Any] = {"dtype": "float32", "kv_tokens": 40_000}
PROMPT = "the quick brown fox jumps over the lazy dog and "

Work = Callable[[Any, int], Awaitable[None]]  # one call, by its number


def save_tiny_model(folder: Path) -> None:
    """A random two-layer Llama over bytes."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|end|>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"eos_token": "<|end|>"}')
    config = LlamaConfig(
        vocab_size=len(letters) + 1,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        bos_token_id=None,
        eos_token_id=len(letters),
    )
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(folder)


def call(number: int, max_tokens: int, **more: Any) -> Call:
    params = SamplingParams(max_tokens=max_tokens, temperature=0.0, ignore_eos=True)
    return Call("g0", "", 0, params, (number,), **more)


async def one_call(backend: Any, number: int, max_tokens: int) -> None:
    stream = backend.open()
    stream.append([Text(f"{PROMPT}{number}")])
    await stream.generate(call(number, max_tokens))
    stream.close()


async def streamed(backend: Any, number: int) -> None:
    pieces: list[str] = []
    stream = backend.open()
    stream.append([Text(f"{PROMPT}{number}")])
    await stream.generate(call(number, 32, on_text=pieces.append))
    stream.close()
    assert pieces


class Forks:
    """Forks of one prompt, which is there once a backend."""

    def __init__(self) -> None:
        self._roots: dict[int, Any] = {}

    async def __call__(self, backend: Any, number: int) -> None:
        root = self._roots.get(id(backend))
        if root is None:
            root = self._roots[id(backend)] = backend.open()
            root.append([Text(PROMPT * 2)])
        stream = root.fork()
        stream.append([Text(str(number))])
        await stream.generate(call(number, 1))
        stream.close()


WORKLOADS: dict[str, Callable[[], Work]] = {
    "no step": lambda: partial(one_call, max_tokens=0),
    "one token": lambda: partial(one_call, max_tokens=1),
    "text": lambda: streamed,
    "fork": Forks,
}
FEWER = {"text": 8}  # calls take that much longer


async def per_call(backend: Any, work: Work, at_a_time: int, calls: int) -> float:
    """Seconds a call, `at_a_time` of them side by side."""
    begin = time.perf_counter()
    for first in range(0, calls, at_a_time):
        await asyncio.gather(*[work(backend, first + i) for i in range(at_a_time)])
    return (time.perf_counter() - begin) / calls


def timed(backend: Any, work: Work, at_a_time: int, calls: int) -> Timed:
    def once() -> float:
        gc.collect()
        return run_sync(per_call(backend, work, at_a_time, calls))

    return once


def measure(
    backends: dict[str, Any], work: Work, at_a_time: int, calls: int, repeats: int
) -> dict[str, Any]:
    """Both backends in turn; the first repeat warms up."""
    works = {name: timed(b, work, at_a_time, calls) for name, b in backends.items()}
    samples = interleave(works, repeats + 1)
    us = {name: 1e6 * min(found.seconds[1:]) for name, found in samples.items()}
    added = us[OWN] - us[HERE]
    found: dict[str, Any] = {f"us_a_call {name}": round(figure, 1) for name, figure in us.items()}
    return {**found, "us_added": round(added, 1), "met": added < GOAL_US}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=256, help="calls a repeat")
    parser.add_argument("--repeats", type=int, default=12)
    parser.add_argument("--output", type=result_path, default=default_path("process_overhead"))
    options = parser.parse_args(argv)
    facts = {"calls": options.calls, "repeats": options.repeats, "goal_us": GOAL_US}
    file = ResultFile(options.output, what=__doc__, conditions=conditions(threads=1), **facts)
    with tempfile.TemporaryDirectory() as folder:
        save_tiny_model(Path(folder))
        here, own = LocalBackend(folder, **OPTIONS), ProcessBackend(folder, **OPTIONS)
        with closing(here), closing(own):
            for name, make in WORKLOADS.items():
                result = {}
                for number in AT_A_TIME:
                    calls = max(number, options.calls // FEWER.get(name, 1))
                    both = {HERE: here, OWN: own}
                    found = measure(both, make(), number, calls, options.repeats)
                    result[f"{number} at a time"] = found
                    print(f"{name:9} {number:2} at a time", *(f"{k} {v}" for k, v in found.items()))
                file.add(name, result)


if __name__ == "__main__":
    main()
