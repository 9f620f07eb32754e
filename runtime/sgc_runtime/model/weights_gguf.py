"""Weights from a GGUF file, dequantised, under Hugging Face's names and in its layout."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import gguf
import numpy as np
import torch
from numpy.typing import NDArray

from sgc_ir.errors import ModelError
from sgc_kernels.weights.grouped import GroupedWeight
from sgc_runtime.model.config import ModelConfig
from sgc_runtime.model.config_gguf import ROPE_DIVISORS
from sgc_runtime.model.gguf_file import GgufFile, GgufTensor
from sgc_runtime.model.gguf_integers import grouped_weight
from sgc_runtime.model.weights import Shape

_TOP = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_BLOCK_NAME = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")


def load_gguf_tensor(file: GgufFile, tensor: GgufTensor) -> torch.Tensor:
    """One tensor of the file as float32 (float16 stays float16), dequantised.

    Raises:
        ModelError: a kind that the `gguf` package cannot dequantise, or a file that is too short.
    """
    raw, kind = _raw(file, tensor)
    if kind == gguf.GGMLQuantizationType.BF16:
        return torch.from_numpy(raw.view(np.int16).copy()).view(torch.bfloat16)
    if kind in (gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.F16):
        form = np.float32 if kind == gguf.GGMLQuantizationType.F32 else np.float16
        return torch.from_numpy(raw.view(form).copy())
    try:
        return torch.from_numpy(gguf.quants.dequantize(raw, kind))
    except NotImplementedError as error:
        raise _unknown_kind(file, tensor, kind.name) from error


def _raw(file: GgufFile, tensor: GgufTensor) -> tuple[NDArray[np.uint8], gguf.GGMLQuantizationType]:
    """The stored bytes, `[..., bytes of a row]`, and their kind."""
    try:
        kind = gguf.GGMLQuantizationType(tensor.kind)
    except ValueError as error:
        raise _unknown_kind(file, tensor, f"number {tensor.kind}") from error
    try:
        byte_shape = gguf.quants.quant_shape_to_byte_shape(tensor.shape, kind)
    except (ValueError, IndexError) as error:
        raise ModelError(
            f"{file.path}: tensor {tensor.name} of shape {list(tensor.shape)} cannot be "
            f"{kind.name}: the file is damaged; fetch it again"
        ) from error
    return file.raw(tensor, math.prod(byte_shape)).reshape(byte_shape), kind


def _unknown_kind(file: GgufFile, tensor: GgufTensor, kind: str) -> ModelError:
    return ModelError(
        f"{file.path}: tensor {tensor.name} is quantised as {kind}, which cannot be read: "
        "give a file in Q4_K_M, Q8_0 or another common kind"
    )


def rope_divisors(file: GgufFile) -> tuple[float, ...]:
    """Values of the tensor that divides the rotary frequencies; empty where there is none."""
    tensor = file.tensors.get(ROPE_DIVISORS)
    return () if tensor is None else tuple(load_gguf_tensor(file, tensor).tolist())


class GgufSource:
    """All tensors of a GGUF file that belong to the model."""

    has_integers = True

    def __init__(self, file: GgufFile, config: ModelConfig) -> None:
        self.place = str(file.path)
        self._file = file
        self._config = config
        self._tensors = {
            _hf_name(name): tensor for name, tensor in file.tensors.items() if name != ROPE_DIVISORS
        }

    def shapes(self) -> Mapping[str, Shape]:
        return {name: tensor.shape for name, tensor in self._tensors.items()}

    def load(self, name: str) -> torch.Tensor:
        tensor = load_gguf_tensor(self._file, self._tensors[name])
        heads = self._interleaved_heads(name)
        return tensor if heads is None else _halves(tensor, heads)

    def grouped(self, name: str) -> GroupedWeight | None:
        """The tensor's own integers, where `gguf_integers` reads its kind."""
        weight = grouped_weight(*_raw(self._file, self._tensors[name]))
        heads = self._interleaved_heads(name)
        if weight is None or heads is None:
            return weight
        return weight.rows(_halves(torch.arange(weight.shape[0]), heads))

    def _interleaved_heads(self, name: str) -> int | None:
        """Heads of a tensor whose rows llama.cpp stores as pairs that are turned together."""
        if self._config.architecture != "LlamaForCausalLM":
            return None
        if ".q_proj." in name:
            return self._config.num_heads
        return self._config.num_kv_heads if ".k_proj." in name else None


def _halves(tensor: torch.Tensor, num_heads: int) -> torch.Tensor:
    """Rows (a0 b0 a1 b1 ...) of every head to (a0 a1 ... b0 b1 ...)."""
    rows = tensor.shape[0] // num_heads
    pairs = tensor.reshape(num_heads, rows // 2, 2, *tensor.shape[1:])
    return pairs.transpose(1, 2).reshape(tensor.shape)


def _hf_name(name: str) -> str:
    """Hugging Face's name; one that is not known stays as it is and is refused as unexpected."""
    match = _BLOCK_NAME.fullmatch(name)
    if match is None or match[2] not in _LAYER:
        return _TOP.get(name, name)
    return f"model.layers.{match[1]}.{_LAYER[match[2]]}.{match[3]}"
