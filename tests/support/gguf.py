"""Writing tiny GGUF files out of transformers' models, the way llama.cpp's converter does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
import transformers

Kind = gguf.GGMLQuantizationType

_ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name: str) -> str:
    top = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }
    if name in top:
        return top[name]
    layer, _, rest = name.removeprefix("model.layers.").partition(".")
    stem, _, ending = rest.rpartition(".")
    return f"blk.{layer}.{_NAMES[stem]}.{ending}"


def write_gguf(
    path: Path,
    model: transformers.PreTrainedModel,
    kind: Kind = Kind.F32,
    metadata: dict[str, Any] | None = None,
    extra: dict[str, np.ndarray[Any, Any]] | None = None,
    leave_out: tuple[str, ...] = (),
) -> Path:
    """Matrices as `kind`, vectors as float32; the model's own matrices become what was stored.

    Args:
        metadata: further values, or other ones; None leaves a key out.
        extra: further tensors.
        leave_out: GGUF names of tensors that are not written.
    """
    config = model.config
    stem = _ARCHITECTURES[config.model_type]
    writer = gguf.GGUFWriter(path, stem)
    for key, value in {**_metadata(config, stem), **(metadata or {})}.items():
        _add(writer, key, value)
    for name, parameter in model.named_parameters():
        written = gguf_name(name)
        if written in leave_out:
            continue
        values = parameter.detach().numpy()
        if stem == "llama":
            values = _interleave(name, values, config)
        if values.ndim == 1:
            writer.add_tensor(written, values)
            continue
        _add_matrix(writer, written, values, parameter, kind)
    for name, values in (extra or {}).items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_matrix(
    writer: gguf.GGUFWriter,
    name: str,
    values: np.ndarray[Any, Any],
    parameter: torch.nn.Parameter,
    kind: Kind,
) -> None:
    """Rows are quantised each by itself, so their order makes no difference to their values."""
    stored = gguf.quants.quantize(np.ascontiguousarray(values), kind)
    writer.add_tensor(name, stored, raw_dtype=kind)
    plain = gguf.quants.quantize(parameter.detach().numpy(), kind)
    with torch.no_grad():
        parameter.copy_(torch.from_numpy(gguf.quants.dequantize(plain, kind).copy()))


def _metadata(config: transformers.PretrainedConfig, stem: str) -> dict[str, Any]:
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return {
        f"{stem}.block_count": config.num_hidden_layers,
        f"{stem}.context_length": config.max_position_embeddings,
        f"{stem}.embedding_length": config.hidden_size,
        f"{stem}.feed_forward_length": config.intermediate_size,
        f"{stem}.attention.head_count": config.num_attention_heads,
        f"{stem}.attention.head_count_kv": config.num_key_value_heads,
        f"{stem}.attention.key_length": head_dim,
        f"{stem}.attention.value_length": head_dim,
        f"{stem}.attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        f"{stem}.rope.freq_base": config.rope_parameters["rope_theta"],
        "tokenizer.ggml.eos_token_id": config.eos_token_id,
        "tokenizer.ggml.tokens": [f"<{i}>" for i in range(config.vocab_size)],
    }


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    if isinstance(value, list):
        writer.add_array(key, value)
    elif isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif value is not None:
        writer.add_string(key, value)


def _interleave(
    name: str, values: np.ndarray[Any, Any], config: transformers.PretrainedConfig
) -> np.ndarray[Any, Any]:
    """Row i and row i + half of a head beside each other."""
    heads = {
        "q_proj": config.num_attention_heads,
        "k_proj": config.num_key_value_heads,
    }
    for part, count in heads.items():
        if f".{part}." in name:
            halves = values.reshape(count, 2, values.shape[0] // count // 2, *values.shape[1:])
            return halves.swapaxes(1, 2).reshape(values.shape)
    return values
