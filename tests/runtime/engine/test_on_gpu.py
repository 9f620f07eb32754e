"""The engine on a GPU under every setting: what it gives on a CPU, and what the default model's
reference gives."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import torch
from support.jumps import byte_tokenizer
from support.local import backend, gen, greedy_ids, prompts, run, select, stream
from support.on_off import Answer, Asked, answer_all, differences, random_llama
from support.reference import default_model_reference
from support.shared_model import SharedModel

from sgc_ir.errors import BackendError
from sgc_runtime.cache.kv_pool import KVPool
from sgc_runtime.model.forward import ForwardBatch
from sgc_runtime.model.loader import LoadedModel, load_model
from sgc_runtime.models import DEFAULT_MODEL, resolve
from sgc_runtime.tokenizer.tokenizer import Tokenizer, load_tokenizer

pytestmark = pytest.mark.gpu

DEVICE = "cuda"
TINY: dict[str, Any] = {"kv_tokens": 400, "reserve": 0.0, "hints": False}
ENGINES: tuple[tuple[int, dict[str, Any]], ...] = (
    (16, {}),
    (16, {"overlap": False}),
    (16, {"graphs": False}),
    (16, {"graphs": False, "overlap": False}),
    (16, {"max_graph_tokens": 4}),
    (16, {"jump": False}),
    (16, {"jump": False, "overlap": False}),
    (16, {"cache": False}),
    (16, {"prefill_tokens": 7, "mixed_tokens": 3}),
    (16, TINY),
)
GREEDY: dict[str, Any] = {"temperature": 0.0, "logprobs": True, "top_logprobs": 2}
SEEDED: dict[str, Any] = {"temperature": 1.0, "top_p": 0.95, "logprobs": True}
PENALTIES = {"frequency_penalty": 0.5, "repetition_penalty": 1.2}
CASES: dict[str, dict[str, Any]] = {
    "free": {},
    "penalties": PENALTIES,
    "object": {"regex": r'\{"name": "[a-z]{1,9}", "age": [0-9]{1,3}\}'},
    "words": {"regex": r"[a-z ]{1,20}\."},
    "schema": {"json_schema": {"type": "array", "items": {"type": "integer"}, "maxItems": 3}},
    "stop": {"stop": ("e",)},
}
NATS = 1e-3  # log-probabilities of another device, or of other kernels: sums in another order
# Of logits of the default model in bfloat16 against float32; their standard deviation is 7.5.
MEAN_ERROR, SAME_LIKELIEST = 0.15, 0.93
TEXT = (
    "The capital of France is Paris. It lies on the Seine, and more than two million people live "
    "there. In 1889 an iron tower was built for a fair, and it was meant to stand twenty years. "
    "Question: which river flows through the city?\nAnswer: the Seine."
)


def asked(params: dict[str, Any]) -> list[Asked]:
    starts = prompts(4)
    return [
        Asked(f"{name} {i}", starts[i], {"max_tokens": 20, **case, **params}, i)
        for name, case in CASES.items()
        for i in range(len(starts))
    ]


class Models:
    """A random model in float32 on a CPU and on a GPU."""

    def __init__(self, folder: Path) -> None:
        tokenizer = folder / "tokenizer"
        tokenizer.mkdir()
        byte_tokenizer(tokenizer)
        self.tokenizer: Tokenizer = load_tokenizer(tokenizer)
        self.folder = folder / "model"
        random_llama(self.tokenizer, self.folder, head_dim=64)
        self.cpu = load_model(self.folder, "float32", "cpu")
        self.gpu = load_model(self.folder, "float32", DEVICE)

    def answers(
        self, model: LoadedModel, calls: list[Asked], batch: int, **options: Any
    ) -> list[Answer]:
        return answer_all(model, self.tokenizer, calls, batch, **options)[0]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return Models(tmp_path_factory.mktemp("models"))


def test_greedy_gens_are_those_of_a_cpu(models: Models) -> None:
    calls = asked(GREEDY)
    expected = models.answers(models.cpu, calls, 1)
    for batch, options in ((1, {}), *ENGINES):
        found = models.answers(models.gpu, calls, batch, **options)
        assert not differences(calls, expected, found, NATS), options


def test_seeded_gens_do_not_depend_on_settings(models: Models) -> None:
    calls = asked(SEEDED)
    expected = models.answers(models.gpu, calls, 1)
    for batch, options in ENGINES:
        found = models.answers(models.gpu, calls, batch, **options)
        assert not differences(calls, expected, found, NATS), options


@pytest.mark.parametrize("how", [{"attention": "torch"}, {"deterministic": True}], ids=str)
def test_greedy_gens_by_other_kernels(models: Models, how: dict[str, Any]) -> None:
    calls = asked(GREEDY)
    expected = models.answers(models.cpu, calls, 1)
    other = load_model(models.folder, "float32", DEVICE, **how)
    for options in ({}, {"overlap": False}):
        found = models.answers(other, calls, 16, **options)
        assert not differences(calls, expected, found, NATS), options


def test_what_is_cached_changes_nothing(models: Models) -> None:
    async def twice(owner: SharedModel) -> list[list[Any]]:
        return [
            [
                (list(result.token_ids), result.usage.cached_tokens > 0)
                for result in await asyncio.gather(
                    *(gen(stream(owner, text), max_tokens=12) for text in prompts(6))
                )
            ]
            for _ in range(2)
        ]

    with SharedModel(models.gpu, "shared", models.tokenizer, kv_tokens=4000) as owner:
        cold, warm = run(lambda: twice(owner))
    assert [ids for ids, _ in cold] == [ids for ids, _ in warm]
    assert all(cached for _, cached in warm)


def test_choices_score_as_on_a_cpu(models: Models) -> None:
    choices = [" fox", " dog", " quick brown", " the lazy dog over"]

    async def main(owner: SharedModel) -> list[Any]:
        calls = [select(stream(owner, text), choices) for text in prompts(5)]
        gens = [gen(stream(owner, text), max_tokens=9) for text in prompts(3, seed=1)]
        results = await asyncio.gather(*calls, *gens)
        return [(result.text, result.meta.get("scores")) for result in results]

    found = []
    for model in (models.cpu, models.gpu):
        with SharedModel(model, "shared", models.tokenizer, kv_tokens=4000) as owner:
            found.append(run(lambda: main(owner)))
    for (text, scores), (other, others) in zip(*found, strict=True):
        assert text == other
        assert scores is None or scores == pytest.approx(others, abs=1e-4)


def test_a_profile_has_times_of_the_gpu(models: Models) -> None:
    with SharedModel(models.gpu, "shared", models.tokenizer, kv_tokens=4000, profile=True) as owner:

        async def main() -> None:
            await asyncio.gather(*(gen(stream(owner, t), max_tokens=40) for t in prompts(8)))

        run(main)
        found = owner.stats()
    profile = found["profile"]
    assert {"prefill", "decode", "sample", "idle"} <= set(profile["gpu"])
    assert 0 <= profile["gpu_idle_share"] < 1
    assert profile["gpu"]["decode"]["seconds"] > 0
    assert found["budgets"]["max_running"] == 512
    assert found["budgets"]["graph_bytes"] > 0


def test_more_memory_than_there_is_is_refused(models: Models) -> None:
    with pytest.raises(BackendError, match="kv_memory=9000GB: a KV pool") as caught:
        SharedModel(models.gpu, "shared", models.tokenizer, kv_memory="9000GB")
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_the_second_gpu(models: Models) -> None:
    second = load_model(models.folder, "float32", "cuda:1")
    calls = asked(SEEDED)
    expected, found = (models.answers(model, calls, 16) for model in (models.gpu, second))
    assert not differences(calls, expected, found, NATS)
    assert second.model.device == torch.device("cuda", 1)


# -- the default model ----------------------------------------------------------------------------


@pytest.mark.model
def test_greedy_ids_of_the_default_model() -> None:
    tokenizer = load_tokenizer(resolve(DEFAULT_MODEL))
    reference = default_model_reference(resolve(DEFAULT_MODEL))
    texts = [TEXT[:end] for end in (40, 90, 130, 200)] + ["Once upon a time", "2 + 2 ="]
    expected = [greedy_ids(reference, tokenizer.encode(text), 24) for text in texts]

    async def main(owner: Any) -> list[list[int]]:
        calls = (gen(stream(owner, text), max_tokens=24) for text in texts)
        return [list(result.token_ids) for result in await asyncio.gather(*calls)]

    for options in ({}, {"overlap": False, "graphs": False}, {"deterministic": True}):
        with backend(DEFAULT_MODEL, device=DEVICE, **options) as owner:
            assert run(lambda: main(owner)) == expected, options


def logits_of(loaded: LoadedModel, ids: list[int]) -> torch.Tensor:
    """`[len(ids), vocab]` of one prompt, on the CPU."""
    config, device, count = loaded.config, loaded.model.device, len(ids)
    shape = (config.num_layers, count, config.num_kv_heads, config.head_dim)
    places, ends = torch.arange(count, device=device), torch.tensor([0, count], dtype=torch.int32)
    batch = ForwardBatch(
        input_ids=torch.tensor(ids, device=device),
        positions=places,
        out_slots=places,
        qo_indptr=ends,
        kv_indptr=ends,
        kv_slots=places,
        logit_rows=places,
    )
    return loaded.model.forward(batch, KVPool(*shape, loaded.model.dtype, device)).cpu()


@pytest.mark.model
@pytest.mark.parametrize("attention", ["triton", "torch", "flashinfer"])
def test_logits_in_bfloat16(attention: str) -> None:
    if attention == "flashinfer":
        pytest.importorskip("flashinfer")
    path = resolve(DEFAULT_MODEL)
    ids = load_tokenizer(path).encode(TEXT)
    exact = logits_of(load_model(path, "float32", "cpu"), ids)
    found = logits_of(load_model(path, "bfloat16", DEVICE, attention=attention), ids)
    assert found.dtype == torch.float32
    assert (found - exact).abs().mean().item() < MEAN_ERROR
    same = (found.argmax(-1) == exact.argmax(-1)).float().mean().item()
    assert same >= SAME_LIKELIEST
