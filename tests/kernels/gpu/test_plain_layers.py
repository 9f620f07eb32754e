"""Layers over memory of a step's own give what the model's plain way gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.model import Runner, make_batch, saved, tiny_model

from sgc_runtime.model.loader import LoadedModel, load_model
from sgc_runtime.model.plain_layers import plain_layers

_KINDS = (
    ("llama", True),
    ("llama tied, biases, one kv head, wide heads", False),
    ("qwen3", False),
    ("qwen2 windows", True),
)
_STEPS = ((9, 4, 12), (1, 1, 3), (1, 6, 1))  # tokens of each sequence


@pytest.fixture(params=_KINDS, ids=lambda param: param[0])
def loaded(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> LoadedModel:
    """A model with plain products and kernels for GPUs, those of attention in some cases."""
    from sgc_kernels import select

    kind, with_attention = request.param
    monkeypatch.setattr("sgc_kernels.linear.can_pack", lambda *_: False)
    loaded = load_model(saved(tiny_model(kind), tmp_path), torch.float32)
    model = loaded.model
    kernels = select._with_triton(model.kernels, model.device, model.dtype, "auto")
    attention = kernels.attention if with_attention else model.kernels.attention
    model.kernels = replace(kernels, attention=attention)
    return loaded


def test_as_the_plain_way(loaded: LoadedModel) -> None:
    model, layers = loaded.model, plain_layers(loaded.model)
    assert layers is not None
    runners = Runner(loaded), Runner(loaded)
    sequences = [[r.sequence(list(range(3 + n, 25 + n))) for n in range(3)] for r in runners]
    for counts in _STEPS:
        results = []
        for runner, some, hidden in zip(runners, sequences, (None, layers.hidden), strict=True):
            batch = make_batch(list(zip(some, counts, strict=True)))
            results.append(model.forward(batch, runner.pool, hidden))
            for sequence, count in zip(some, counts, strict=True):
                sequence.done += count
        assert len(results[0]) == sum(counts)
        torch.testing.assert_close(results[1], results[0], atol=1e-5, rtol=1e-5)
    plain, other = (runner.pool.k + runner.pool.v for runner in runners)
    for keys, others in zip(plain, other, strict=True):
        torch.testing.assert_close(others, keys, atol=1e-5, rtol=1e-5, equal_nan=True)


def test_no_logits_are_wanted(loaded: LoadedModel) -> None:
    layers, runner = plain_layers(loaded.model), Runner(loaded)
    assert layers is not None
    batch = make_batch([(runner.sequence([5, 6, 7]), 3)])
    batch = replace(batch, logit_rows=torch.empty(0, dtype=torch.int64))
    assert loaded.model.forward(batch, runner.pool, layers.hidden).shape == (0, 97)


def test_only_where_all_is_plain(tmp_path: Path) -> None:
    loaded = load_model(saved(tiny_model("llama"), tmp_path), torch.float32)
    assert plain_layers(loaded.model) is None
