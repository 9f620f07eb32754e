"""With `deterministic` a text's logits have the same bits in any batch and in any pieces."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from support.model import SIZES, Runner, hf_logits, saved

from sgc_ir.errors import ModelError
from sgc_kernels.attention.compiled import can_attend
from sgc_runtime.model.loader import LoadedModel, load_model

WIDE = {**SIZES, "vocab_size": 112, "hidden_size": 96, "intermediate_size": 160, "head_dim": 32}
MODELS: dict[str, Any] = {
    "llama": (transformers.LlamaConfig, {"num_attention_heads": 6}),
    "qwen3": (transformers.Qwen3Config, {}),
    "mistral": (transformers.MistralConfig, {"sliding_window": 20}),
    "mixtral": (transformers.MixtralConfig, {"num_local_experts": 5}),
}
LENGTHS = (70, 40, 33, 90)
CPU_ONLY = pytest.mark.skipif(
    not can_attend(torch.float32, 32, 2), reason="needs kernels compiled for this CPU"
)


def make(kind: str, folder: Path) -> tuple[transformers.PreTrainedModel, Path]:
    config_class, own = MODELS[kind]
    torch.manual_seed(3)
    config = config_class(**{**WIDE, **own})
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model, saved(model, folder)


def texts() -> list[list[int]]:
    chance = random.Random(5)
    prefix = chance.choices(range(3, 97), k=37)
    return [
        prefix[: n - 2] + chance.choices(range(3, 97), k=n)[: n - len(prefix[: n - 2])]
        for n in LENGTHS
    ]


def alone(loaded: LoadedModel) -> list[torch.Tensor]:
    return [_step(Runner(loaded), ids) for ids in texts()]


def _step(runner: Runner, ids: list[int]) -> torch.Tensor:
    (logits,) = runner.step([(runner.sequence(ids), len(ids))])
    return logits


def check_routes(loaded: LoadedModel) -> None:
    right = alone(loaded)
    for seed in range(3):
        assert_same(right, in_pieces(loaded, seed))
    assert_same(right, after_a_prefix(loaded))


def assert_same(right: list[torch.Tensor], found: list[torch.Tensor]) -> None:
    for a, b in zip(right, found, strict=True):
        assert torch.isfinite(b).all()
        assert torch.equal(a, b)


def in_pieces(loaded: LoadedModel, seed: int) -> list[torch.Tensor]:
    """Random steps of random sequences, one token or many."""
    chance, runner = random.Random(seed), Runner(loaded, seed=seed)
    sequences = [runner.sequence(ids) for ids in texts()]
    parts: list[list[torch.Tensor]] = [[] for _ in sequences]
    while waiting := [i for i, s in enumerate(sequences) if s.done < len(s.ids)]:
        chosen = chance.sample(waiting, chance.randint(1, len(waiting)))
        left = [len(sequences[i].ids) - sequences[i].done for i in chosen]
        work = [
            (sequences[i], min(n, chance.choice((1, 1, 3, 17, 50)))) for i, n in zip(chosen, left)
        ]
        for i, logits in zip(chosen, runner.step(work)):
            parts[i].append(logits)
    return [torch.cat(some) for some in parts]


def after_a_prefix(loaded: LoadedModel) -> list[torch.Tensor]:
    """All that share one read the same slots, written once."""
    runner, all_ids = Runner(loaded), texts()
    root = runner.sequence(all_ids[0][:31])
    (first,) = runner.step([(root, 31)])
    forks = [runner.fork(root, ids[31:]) for ids in all_ids]
    found = runner.step([(fork, len(fork.ids) - 31) for fork in forks])
    return [torch.cat((first, logits)) for logits in found]


@CPU_ONLY
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [*((kind, "float32") for kind in MODELS), ("llama", "bfloat16"), ("mixtral", "bfloat16")],
)
def test_the_same_bits_on_a_cpu(kind: str, dtype: str, tmp_path: Path) -> None:
    if dtype == "bfloat16" and not can_attend(torch.bfloat16, 32, 2):
        pytest.skip("no kernels for bfloat16 here")
    model, folder = make(kind, tmp_path / "m")
    loaded = load_model(folder, dtype, deterministic=True)
    check_routes(loaded)
    if dtype == "float32":
        error = (alone(loaded)[0] - hf_logits(model, texts()[0])).abs().max()
        assert error < 1e-3


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("kind", MODELS)
def test_the_same_bits_on_a_gpu(kind: str, dtype: str, tmp_path: Path) -> None:
    model, folder = make(kind, tmp_path / "m")
    loaded = load_model(folder, dtype, "cuda", deterministic=True)
    check_routes(loaded)
    if dtype == "float32":
        error = (alone(loaded)[0] - hf_logits(model, texts()[0])).abs().max()
        assert error < 1e-3


def test_without_kernels_for_the_shape_it_is_refused(tmp_path: Path) -> None:
    narrow = transformers.LlamaConfig(
        **{**SIZES, "hidden_size": 40, "num_attention_heads": 5, "num_key_value_heads": 5}
    )
    folder = saved(transformers.LlamaForCausalLM(narrow), tmp_path / "m")
    with pytest.raises(ModelError, match=r"^deterministic=True needs kernels compiled") as caught:
        load_model(folder, "float32", deterministic=True)
    assert "\n" not in str(caught.value)
