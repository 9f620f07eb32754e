"""How many weights and bytes a GGUF model has, for the floors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import gguf

from sgc_runtime.model.gguf_file import open_gguf


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of weights that each token, or each row of logits, is multiplied with, and bytes.

    Attributes:
        bfloat16_bytes, file_bytes: all of them as bfloat16, and as the file keeps them.
        kv_bytes: keys and values of one position, all layers, bfloat16.
    """

    layer_weights: int
    head_weights: int
    bfloat16_bytes: int
    file_bytes: int
    kv_bytes: int


def model_sizes(path: Path) -> Sizes:
    """Sizes of a Llama model whose output head is its embedding."""
    file = open_gguf(path)
    facts = file.metadata
    layers = head = stored = 0
    for name, tensor in file.tensors.items():
        count = math.prod(tensor.shape)
        kind = gguf.GGMLQuantizationType(tensor.kind)
        stored += math.prod(gguf.quants.quant_shape_to_byte_shape(tensor.shape, kind))
        if name.startswith("blk."):
            layers += count
        elif name == "token_embd.weight":
            head += count
    width = facts["llama.embedding_length"] // facts["llama.attention.head_count"]
    kv = 2 * 2 * width * facts["llama.attention.head_count_kv"] * facts["llama.block_count"]
    return Sizes(layers, head, 2 * (layers + head), stored, kv)
