"""What a model looks like, whatever file says so."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from sgc_ir.errors import ModelError

# Hugging Face's architecture name -> the name that GGUF files use. All are one family: RMS norm,
# rotary positions, grouped query heads, SiLU gate.
ARCHITECTURES = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "llama",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "MixtralForCausalLM": "llama",
    "Qwen3MoeForCausalLM": "qwen3moe",
}

# What a damaged file says beyond would be listed tensor by tensor.
MAX_LAYERS = 10_000
MAX_EXPERTS = 1024


@dataclass(frozen=True, slots=True)
class RopeConfig:
    """Rotary positions.

    `kind` is one of `sgc_runtime.model.rope.KINDS`; the fields behind `theta` are read by some
    kinds only.
    """

    kind: str = "default"
    theta: float = 10_000.0
    factor: float = 1.0
    original_max_positions: int = 0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float | None = None
    mscale: float = 0.0
    mscale_all_dim: float = 0.0
    divisors: tuple[float, ...] = ()  # kind "divided": one a frequency


@dataclass(frozen=True, slots=True)
class MoeConfig:
    """Layers whose feed-forward part is a mixture of experts.

    Attributes:
        top_k: experts that compute a token.
        intermediate_size: width of an expert.
        renormalise: the weights of a token's experts add up to 1.
        layers: one entry a layer: whether it has experts; the others have one network.
    """

    num_experts: int
    top_k: int
    intermediate_size: int
    renormalise: bool
    layers: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Sizes and switches of a decoder; frozen, made by `config_hf` and `config_gguf`.

    Attributes:
        architecture: Hugging Face's name, a key of `ARCHITECTURES`.
        max_positions: longest context that the model was made for, in tokens.
        windows: one entry a layer: a token sees itself and the `window - 1` before it; None: all.
        qkv_bias, out_bias, mlp_bias: which products have a bias.
        qk_norm: queries and keys are normalised head by head before they are turned.
        moe: None where no layer has experts.
        eos_token_ids: ids that end a text, those of the generation config first.
    """

    architecture: str
    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    max_positions: int
    rms_eps: float
    rope: RopeConfig
    tie_embeddings: bool
    windows: tuple[int | None, ...]
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    eos_token_ids: tuple[int, ...] = field(default=())
    moe: MoeConfig | None = None

    @property
    def attention_scale(self) -> float:
        return float(self.head_dim**-0.5)

    def has_experts(self, layer: int) -> bool:
        return self.moe is not None and self.moe.layers[layer]


def check_sizes(config: ModelConfig, place: Path) -> None:
    """Raise ModelError where sizes that are fine by themselves do not fit each other."""
    if config.num_heads % config.num_kv_heads:
        raise ModelError(
            f"{place}: num_key_value_heads is {config.num_kv_heads}, expected a divisor of the "
            f"{config.num_heads} heads: fetch the model again"
        )
    if config.head_dim % 2:
        raise ModelError(
            f"{place}: head_dim is {config.head_dim}, expected an even number: "
            "fetch the model again"
        )
    if config.moe is not None and config.moe.top_k > config.moe.num_experts:
        raise ModelError(
            f"{place}: num_experts_per_tok is {config.moe.top_k}, expected at most the "
            f"{config.moe.num_experts} experts: fetch the model again"
        )
