"""`deterministic`: ids and log-probabilities of a call have the same bits alone and among others,
with a cold and a warm cache, with prompts cut into pieces, with and without jumps."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sgc_ir.errors import ModelError
from sgc_ir.params import SamplingParams
from sgc_kernels.compiled.target import host_target
from sgc_runtime.backends.local import LocalBackend
from sgc_runtime.executor.backend import Call, Text
from sgc_runtime.models import DEFAULT_MODEL, resolve

SHARED = "You answer in one short line, and you never say more than you know. " * 3
PROMPTS = [SHARED + text for text in ("The capital of France is", "17 + 25 =", "Once upon")]
PROMPTS += ["def fibonacci(n):\n", "Water is"]
REGEX = r'\{"name": "[A-Z][a-z]{2,10}", "age": [0-9]{1,3}\}'

Found = dict[int, tuple[tuple[int, ...], Any]]


def run(rounds: list[list[int]], **options: Any) -> list[Found]:
    """Ids and log-probabilities of some prompts, each round at once, one round after the other."""
    try:
        path = str(resolve(DEFAULT_MODEL))
    except ModelError as error:
        pytest.skip(f"the default model is not here: {error}")
    backend = LocalBackend(path, kv_tokens=4096, deterministic=True, **options)

    async def one(number: int) -> tuple[tuple[int, ...], Any]:
        stream = backend.open()
        stream.append([Text(PROMPTS[number])])
        regex = {"regex": REGEX} if number == 4 else {}
        heat = 0.8 if number % 2 else 0.0
        params = SamplingParams(max_tokens=16, temperature=heat, seed=7, logprobs=True, **regex)
        result = await stream.generate(Call(f"g{number}", "", number, params, (0,)))
        return tuple(result[0].token_ids), result[0].meta["logprobs"]

    async def everything() -> list[Found]:
        found = []
        for some in rounds:
            results = await asyncio.gather(*map(one, some))
            found.append(dict(zip(some, results, strict=True)))
        return found

    try:
        return asyncio.run(everything())
    finally:
        backend.close()


def check(**options: Any) -> None:
    alone: Found = {}
    for number in range(len(PROMPTS)):
        (found,) = run([[number]], cache=False, **options)
        alone |= found
    everyone = list(range(len(PROMPTS)))
    others: list[dict[str, Any]] = [{}, {"prefill_tokens": 16}, {"jump": False}]
    for more in others:
        for found in run([everyone, everyone[::-1]], **options, **more):
            assert found == alone, more


@pytest.mark.model
@pytest.mark.skipif(
    "avx512bf16" not in host_target().features,
    reason="needs products with integers",
)
def test_on_a_cpu() -> None:
    check()


@pytest.mark.model
@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_on_a_cpu_with_dense_weights(dtype: str) -> None:
    check(dtype=dtype, weights="dense")


@pytest.mark.gpu
@pytest.mark.model
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("graphs", [True, False])
def test_on_a_gpu(dtype: str, graphs: bool) -> None:
    check(device="cuda", process="off", dtype=dtype, graphs=graphs)
