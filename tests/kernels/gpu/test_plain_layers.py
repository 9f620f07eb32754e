"""Layers over memory of a step's own give what the model's plain way gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.model import Runner, make_batch, saved, tiny_model

from sgc_runtime.model.forward import ForwardBatch
from sgc_runtime.model.loader import LoadedModel, load_model
from sgc_runtime.model.plain_layers import plain_layers

_KINDS = ("llama", "llama tied, biases, one kv head, wide heads", "qwen3", "qwen2 windows")


@pytest.fixture(params=_KINDS)
def loaded(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> LoadedModel:
    from sgc_kernels import select

    monkeypatch.setattr("sgc_kernels.linear.can_pack", lambda *_: False)
    loaded = load_model(saved(tiny_model(request.param), tmp_path), torch.float32)
    model = loaded.model
    on_gpu = select._with_triton(model.kernels, model.device, model.dtype, "auto")
    model.kernels = replace(on_gpu, attention=model.kernels.attention)
    return loaded


def _batch(runner: Runner) -> ForwardBatch:
    return make_batch([(runner.sequence(list(range(3, 3 + n))), n) for n in (5, 1, 8)])


def test_as_the_plain_way(loaded: LoadedModel) -> None:
    model, layers = loaded.model, plain_layers(loaded.model)
    assert layers is not None
    plain, other = Runner(loaded), Runner(loaded)
    for number in range(2):
        expected = model.forward(_batch(plain), plain.pool)
        logits = model.forward(_batch(other), other.pool, layers.hidden)
        torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)
        assert len(logits) == 14, number
    for some, others in zip(plain.pool.k + plain.pool.v, other.pool.k + other.pool.v, strict=True):
        torch.testing.assert_close(some, others, atol=1e-5, rtol=1e-5, equal_nan=True)


def test_no_logits_are_wanted(loaded: LoadedModel) -> None:
    layers, runner = plain_layers(loaded.model), Runner(loaded)
    assert layers is not None
    batch = replace(_batch(runner), logit_rows=torch.empty(0, dtype=torch.int64))
    assert loaded.model.forward(batch, runner.pool, layers.hidden).shape == (0, 97)


def test_only_where_all_is_plain(tmp_path: Path) -> None:
    loaded = load_model(saved(tiny_model("llama"), tmp_path), torch.float32)
    assert plain_layers(loaded.model) is None
