"""transformers' Llama model with the weights of a GGUF file, by transformers' own converter.

Its `from_pretrained` does the same, but needs `accelerate` and half a minute for the names.
"""

from __future__ import annotations

import logging
import math
import warnings
from pathlib import Path
from typing import Any

import gguf
import torch
import transformers
from transformers.modeling_gguf_pytorch_utils import LlamaTensorProcessor

from sgc_runtime.model.gguf_file import open_gguf

PAD = 0


def load_transformers(path: Path, dtype: torch.dtype = torch.bfloat16) -> Any:
    """The model in `dtype` with fused attention (sdpa); EOS never ends a generation."""
    warnings.filterwarnings("ignore", module="transformers")
    transformers.utils.logging.set_verbosity_error()
    logging.getLogger("ContinuousBatchingLogger").setLevel(logging.ERROR)
    file = open_gguf(path)
    config = _config(file.metadata)
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config)
    heads = {
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
    }
    converter = LlamaTensorProcessor(config=heads)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    weights = {}
    for name in model.state_dict():
        known = names.get_name(name, try_suffixes=(".weight",))
        known = known if known in file.tensors else "token_embd.weight"  # tied head
        tensor = file.tensors[known]
        kind = gguf.GGMLQuantizationType(tensor.kind)
        shape = gguf.quants.quant_shape_to_byte_shape(tensor.shape, kind)
        values = gguf.quants.dequantize(file.raw(tensor, math.prod(shape)).reshape(shape), kind)
        converted = converter.process(values, tensor.name).weights
        weights[name] = torch.tensor(converted).to(dtype)
    model.load_state_dict(weights, assign=True)
    model.tie_weights()
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = PAD
    return model.eval()


def _config(facts: Any) -> transformers.LlamaConfig:
    own = {name.removeprefix("llama."): value for name, value in facts.items()}
    return transformers.LlamaConfig(
        vocab_size=len(facts["tokenizer.ggml.tokens"]),
        hidden_size=own["embedding_length"],
        intermediate_size=own["feed_forward_length"],
        num_hidden_layers=own["block_count"],
        num_attention_heads=own["attention.head_count"],
        num_key_value_heads=own["attention.head_count_kv"],
        max_position_embeddings=own["context_length"],
        rms_norm_eps=own["attention.layer_norm_rms_epsilon"],
        rope_parameters={"rope_type": "default", "rope_theta": own["rope.freq_base"]},
        tie_word_embeddings=True,
        attn_implementation="sdpa",
        dtype=torch.bfloat16,
    )
