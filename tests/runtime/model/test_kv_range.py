"""Keys and values in 8 bits: factors that change nothing else, and what the format costs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from support.model import Runner, saved, tiny_model

from sgc_ir.errors import ModelError
from sgc_kernels.kv_store import EIGHT_BITS, LARGEST
from sgc_kernels.linear import PlainLinear
from sgc_kernels.select import select_kernels
from sgc_runtime.cache.kv_pool import KVPool
from sgc_runtime.model.kv_range import keep_in_eight_bits, largest_of_trial
from sgc_runtime.model.loader import LoadedModel, load_model

CPU = torch.device("cpu")
KINDS = ("llama", "llama tied, biases, one kv head, wide heads", "qwen2", "qwen3", "mixtral")
IDS = [3, 96, 5, 17, 44, 8, 8, 51, 60, 2, 33, 71]


def reference(folder: Path, dtype: str = "float32") -> LoadedModel:
    """The model with references of all kernels, which take any pool."""
    loaded = load_model(folder, dtype)
    loaded.model.kernels = select_kernels(CPU, loaded.model.dtype)
    return loaded


def enlarge(made: Any, keys: float, values: float) -> None:
    """Keys and values of other sizes, by head."""
    with torch.no_grad():
        for layer in made.model.layers:
            attention = layer.self_attn
            half = attention.k_proj.weight.shape[0] // 2
            attention.k_proj.weight[:half] *= keys
            attention.q_proj.weight /= keys
            attention.v_proj.weight[half:] *= values
            attention.o_proj.weight /= values


def logits(loaded: LoadedModel, ids: list[int] = IDS) -> torch.Tensor:
    """In pieces, so that cached keys and values are read."""
    model = loaded.model
    runner = Runner(loaded)
    config = model.config
    shape = (config.num_layers, 512, config.num_kv_heads, config.head_dim)
    runner.pool = KVPool(*shape, model.shape.kept, CPU)
    sequence = runner.sequence(ids)
    pieces = [runner.step([(sequence, n)])[0] for n in (5, 1, len(ids) - 6)]
    return torch.cat(pieces)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_factors_change_no_digit(
    kind: str, packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not packed:
        monkeypatch.setattr("sgc_kernels.linear.can_pack", lambda device, dtype: False)
    made = tiny_model(kind)
    enlarge(made, 60.0, 0.01)
    loaded = reference(saved(made, tmp_path), "float32")
    model = loaded.model
    assert packed != isinstance(model.weights.layers[0].qkv, PlainLinear)
    before, largest = logits(loaded), largest_of_trial(model)
    keep_in_eight_bits(model)
    kept = dataclasses.replace(model.shape, kv_dtype=None)
    model.shape, eight_bits = kept, model.shape
    assert torch.equal(logits(loaded), before)
    assert eight_bits.kept == EIGHT_BITS
    for now, then in zip(largest_of_trial(model), largest, strict=True):
        assert bool((now <= LARGEST / 8).all())
        factors = now / then
        assert torch.equal(factors, torch.exp2(factors.log2().round()))
        # As large as they may be, unless one factor serves all heads.
        if kind != "qwen3":
            limited = factors == 2.0**6
            assert bool(((now > LARGEST / 16) | limited).all())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("kind", KINDS)
def test_logits_with_eight_bits(kind: str, dtype: str, tmp_path: Path) -> None:
    made = tiny_model(kind)
    saved(made, tmp_path)
    exact = logits(reference(tmp_path))
    loaded = reference(tmp_path, dtype)
    keep_in_eight_bits(loaded.model)
    error = (logits(loaded) - exact).norm() / exact.norm()
    assert 1e-4 < error < 0.15


def test_sizes_that_e4m3_does_not_have(tmp_path: Path) -> None:
    """Keys of thousands and values of a thousandth cost no more than others."""
    made = tiny_model("llama")
    enlarge(made, 2_000.0, 0.002)
    saved(made, tmp_path)
    exact = logits(reference(tmp_path))
    errors = []
    for factors in (True, False):
        loaded = reference(tmp_path)
        model = loaded.model
        if factors:
            keep_in_eight_bits(model)
        else:
            model.shape = dataclasses.replace(model.shape, kv_dtype=EIGHT_BITS)
        errors.append(float((logits(loaded) - exact).norm() / exact.norm()))
    assert errors[0] < 0.15
    assert errors[1] > 3 * errors[0]


def test_a_cpu_has_none(tmp_path: Path) -> None:
    saved(tiny_model("llama"), tmp_path)
    with pytest.raises(ModelError, match=r"^kv_dtype=fp8 needs a GPU .*, not cpu: leave kv_dtype"):
        load_model(tmp_path, kv_dtype="fp8")


@pytest.mark.gpu
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_on_a_gpu(kind: str, deterministic: bool, tmp_path: Path) -> None:
    saved(tiny_model(kind), tmp_path)
    exact = logits(reference(tmp_path))
    loaded = load_model(tmp_path, "bfloat16", "cuda", deterministic=deterministic, kv_dtype="fp8")
    model = loaded.model
    config = model.config
    shape = (config.num_layers, 512, config.num_kv_heads, config.head_dim)
    runner = Runner(loaded)
    runner.pool = KVPool(*shape, EIGHT_BITS, model.device)
    sequence = runner.sequence(IDS)
    found = torch.cat([runner.step([(sequence, n)])[0] for n in (5, 1, len(IDS) - 6)])
    assert (found - exact).norm() / exact.norm() < 0.15
