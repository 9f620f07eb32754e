"""The default model as transformers computes it."""

from __future__ import annotations

import math
from pathlib import Path

import gguf
import torch
import transformers
from support.gguf import gguf_name
from transformers.modeling_gguf_pytorch_utils import LlamaTensorProcessor

from sgc_runtime.model.gguf_file import open_gguf

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


def default_model_reference(path: Path) -> transformers.PreTrainedModel:
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
