"""The default model's GGUF against transformers' loading of the same file."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from support.model import Runner, hf_logits
from support.reference import default_model_reference

from sgc_runtime.model.loader import load_model
from sgc_runtime.models import DEFAULT_MODEL, resolve

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def gguf_path() -> Path:
    return resolve(DEFAULT_MODEL)


def test_logits_equal_transformers(gguf_path: Path) -> None:
    reference = default_model_reference(gguf_path)
    loaded = load_model(gguf_path, torch.float32)
    chance = random.Random(0)
    texts = [chance.choices(range(49_152), k=n) for n in (60, 7, 33)]
    runner = Runner(loaded)
    sequences = [runner.sequence(ids) for ids in texts]
    first = runner.step([(s, len(s.ids) - 2) for s in sequences])
    then = runner.step([(s, 1) for s in sequences])
    last = runner.step([(s, 1) for s in reversed(sequences)])[::-1]
    for ids, *parts in zip(texts, first, then, last, strict=True):
        expected = hf_logits(reference, ids)
        error = float((torch.cat(parts) - expected).abs().max())
        assert error < 1e-3 * float(expected.abs().max())
        assert torch.equal(torch.cat(parts).argmax(-1), expected.argmax(-1))


def test_config(gguf_path: Path) -> None:
    config = load_model(gguf_path).config
    assert (config.num_layers, config.num_heads, config.num_kv_heads) == (30, 9, 3)
    assert (config.vocab_size, config.max_positions, config.eos_token_ids) == (49_152, 8192, (2,))
    assert config.tie_embeddings
