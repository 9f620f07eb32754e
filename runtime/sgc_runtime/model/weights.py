"""Which tensors a model needs, and what every source of them offers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import torch

from sgc_ir.errors import ModelError
from sgc_kernels.weights.grouped import GroupedWeight
from sgc_runtime.model.config import ModelConfig

Shape = tuple[int, ...]

_SHOWN = 3  # names in a message
# Tables that old checkpoints store and every model computes.
_COMPUTED = ("rotary_emb.inv_freq",)
_HEAD = "lm_head.weight"


class WeightSource(Protocol):
    """Tensors under Hugging Face's names.

    Attributes:
        place: shown in errors.
        has_integers: whether `grouped` ever gives something.
    """

    place: str
    has_integers: bool

    def shapes(self) -> Mapping[str, Shape]:
        """Every tensor that is there."""
        ...

    def load(self, name: str) -> torch.Tensor:
        """One tensor on the CPU, of a floating type. May be called from several threads."""
        ...

    def grouped(self, name: str) -> GroupedWeight | None:
        """The integers and scales that a matrix is stored as; None if it is stored otherwise."""
        ...


def expected_shapes(config: ModelConfig) -> dict[str, Shape]:
    """Every tensor that a model of this config has; tied output weights are not listed."""
    hidden = config.hidden_size
    shapes: dict[str, Shape] = {
        "model.embed_tokens.weight": (config.vocab_size, hidden),
        "model.norm.weight": (hidden,),
    }
    if not config.tie_embeddings:
        shapes[_HEAD] = (config.vocab_size, hidden)
    for layer in range(config.num_layers):
        for name, shape in _layer_shapes(config).items():
            shapes[f"model.layers.{layer}.{name}"] = shape
    return shapes


def _layer_shapes(config: ModelConfig) -> dict[str, Shape]:
    hidden, inner = config.hidden_size, config.intermediate_size
    q, kv = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    products = {
        "self_attn.q_proj": ((q, hidden), config.qkv_bias),
        "self_attn.k_proj": ((kv, hidden), config.qkv_bias),
        "self_attn.v_proj": ((kv, hidden), config.qkv_bias),
        "self_attn.o_proj": ((hidden, q), config.out_bias),
        "mlp.gate_proj": ((inner, hidden), config.mlp_bias),
        "mlp.up_proj": ((inner, hidden), config.mlp_bias),
        "mlp.down_proj": ((hidden, inner), config.mlp_bias),
    }
    shapes: dict[str, Shape] = {
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
    }
    if config.qk_norm:
        shapes["self_attn.q_norm.weight"] = shapes["self_attn.k_norm.weight"] = (config.head_dim,)
    for name, (shape, bias) in products.items():
        shapes[f"{name}.weight"] = shape
        if bias:
            shapes[f"{name}.bias"] = shape[:1]
    return shapes


def check_weights(config: ModelConfig, source: WeightSource) -> None:
    """Raise ModelError, naming tensors, unless the source has exactly what the config needs."""
    expected, found = expected_shapes(config), source.shapes()
    _refuse(source, "lacks", sorted(expected.keys() - found.keys()))
    extra = {name for name in found.keys() - expected.keys() if not name.endswith(_COMPUTED)}
    if config.tie_embeddings:
        extra.discard(_HEAD)
    _refuse(source, "has unexpected", sorted(extra))
    for name, shape in expected.items():
        if tuple(found[name]) != shape:
            raise ModelError(
                f"{source.place}: tensor {name} has shape {list(found[name])} where the config "
                f"says {list(shape)}: fetch the model again"
            )


def _refuse(source: WeightSource, verb: str, names: Iterable[str]) -> None:
    names = list(names)
    if not names:
        return
    shown = ", ".join(names[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    raise ModelError(
        f"{source.place} {verb} tensors {shown}{more}: the file is incomplete or of another model; "
        "fetch it again"
    )
