"""The default model's GGUF against transformers' loading of the same file."""

from __future__ import annotations

import math
import random
import time
from pathlib import Path

import gguf
import pytest
import torch
import transformers
from gguf_support import gguf_name
from model_support import Runner, hf_logits
from transformers.modeling_gguf_pytorch_utils import LlamaTensorProcessor

from sgc_runtime.model.gguf_file import open_gguf
from sgc_runtime.model.loader import load_model
from sgc_runtime.models import DEFAULT_MODEL, resolve

pytestmark = pytest.mark.model

# What the model's authors publish.
SMOLLM2 = {
    "vocab_size": 49_152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "rope_theta": 100_000.0,
    "tie_word_embeddings": True,
}


@pytest.fixture(scope="module")
def gguf_path() -> Path:
    return resolve(DEFAULT_MODEL)


def transformers_model(path: Path) -> transformers.PreTrainedModel:
    """transformers' model with the file's weights, put into its layout by its own converter.

    Its `from_pretrained` does the same, but needs `accelerate` and half a minute for the names.
    """
    config = transformers.LlamaConfig(**SMOLLM2)
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config)
    file = open_gguf(path)
    converter = LlamaTensorProcessor(config={"num_attention_heads": 9, "num_key_value_heads": 3})
    weights = {}
    for name in model.state_dict():
        tensor = file.tensors[gguf_name("model.embed_tokens.weight" if "lm_head" in name else name)]
        kind = gguf.GGMLQuantizationType(tensor.kind)
        stored_shape = gguf.quants.quant_shape_to_byte_shape(tensor.shape, kind)
        stored = file.raw(tensor, math.prod(stored_shape)).reshape(stored_shape)
        values = gguf.quants.dequantize(stored, kind)
        weights[name] = torch.tensor(converter.process(values, tensor.name).weights)
    model.load_state_dict(weights, assign=True)
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    return model.eval()


def test_logits_equal_transformers(gguf_path: Path) -> None:
    reference = transformers_model(gguf_path)
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


def test_loads_quickly(gguf_path: Path) -> None:
    """Below 2 s on two free cores; the bound leaves room for busy machines."""
    begin = time.perf_counter()
    config = load_model(gguf_path).config
    assert time.perf_counter() - begin < 10
    assert (config.num_layers, config.num_heads, config.num_kv_heads) == (30, 9, 3)
    assert (config.vocab_size, config.max_positions, config.eos_token_ids) == (49_152, 8192, (2,))
    assert config.tie_embeddings
