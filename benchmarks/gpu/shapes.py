"""Sizes of the models that are made on the spot, and the bytes and operations of their work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

BYTES = 2  # of a number in bfloat16


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A Llama model without its vocabulary."""

    hidden: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    max_positions: int

    def config(self, vocab: int, eos_id: int | None) -> dict[str, Any]:
        """Its `config.json`."""
        rope = {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        }
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "torch_dtype": "bfloat16",
            "hidden_act": "silu",
            "hidden_size": self.hidden,
            "intermediate_size": self.inner,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "vocab_size": vocab,
            "rms_norm_eps": 1e-5,
            "rope_theta": 500_000.0,
            "rope_scaling": rope,
            "max_position_embeddings": self.max_positions,
            "tie_word_embeddings": False,
            "attention_bias": False,
            "mlp_bias": False,
            "eos_token_id": eos_id,
        }

    def layer_products(self) -> dict[str, tuple[int, int]]:
        """`(rows, columns)` of a layer's weights, under the names of `model.layers.N.`."""
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return {
            "self_attn.q_proj": (q, self.hidden),
            "self_attn.k_proj": (kv, self.hidden),
            "self_attn.v_proj": (kv, self.hidden),
            "self_attn.o_proj": (self.hidden, q),
            "mlp.gate_proj": (self.inner, self.hidden),
            "mlp.up_proj": (self.inner, self.hidden),
            "mlp.down_proj": (self.hidden, self.inner),
        }

    @property
    def layer_weights(self) -> int:
        """Numbers that each token is multiplied with in all layers together."""
        return self.layers * sum(rows * columns for rows, columns in self.layer_products().values())

    def step_bytes(self, vocab: int) -> int:
        """Bytes of the weights that a step reads: all layers and the head."""
        return BYTES * (self.layer_weights + vocab * self.hidden)

    @property
    def kv_bytes(self) -> int:
        """Keys and values of one position, all layers."""
        return 2 * BYTES * self.layers * self.kv_heads * self.head_dim

    def product_operations(self, tokens: int, logits: int, vocab: int) -> float:
        """Of the products with weights, 2 for a multiply-add."""
        return 2.0 * (self.layer_weights * tokens + vocab * self.hidden * logits)

    def attention_operations(self, pairs: int) -> float:
        """Of queries with keys and of weights with values, for `pairs` (query, key) positions."""
        return 4.0 * self.layers * self.heads * self.head_dim * pairs


LLAMA_8B = ModelShape(4096, 14336, 32, 32, 8, 128, 16_384)  # Llama-3.1-8B
TINY = ModelShape(64, 96, 2, 4, 2, 32, 2_048)  # for the benchmarks' own tests

SHAPES = {"llama-8b": LLAMA_8B, "tiny": TINY}


def causal_pairs(new: int, before: int = 0) -> int:
    """(query, key) pairs of `new` tokens behind `before` others."""
    return new * before + new * (new + 1) // 2
