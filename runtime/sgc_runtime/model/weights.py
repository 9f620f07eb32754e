"""Which tensors a model needs, and what every source of them offers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class ExpertNames:
    """What a layer's router and experts are called, without the layer."""

    stem: str
    gate: str
    up: str
    down: str

    @property
    def router(self) -> str:
        return f"{self.stem}.gate.weight"

    def of(self, expert: int, part: str) -> str:
        return f"{self.stem}.experts.{expert}.{part}.weight"


def expert_names(config: ModelConfig) -> ExpertNames:
    """The names for a model that has experts."""
    if config.architecture == "MixtralForCausalLM":
        return ExpertNames("block_sparse_moe", gate="w1", up="w3", down="w2")
    return ExpertNames("mlp", gate="gate_proj", up="up_proj", down="down_proj")


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
        """One tensor on the CPU, of a floating type; it may be a view of the mapped file. May be
        called from several threads."""
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
        experts = config.has_experts(layer)
        mlp = _expert_shapes(config) if experts else _mlp_shapes(config)
        for name, shape in {**_layer_shapes(config), **mlp}.items():
            shapes[f"model.layers.{layer}.{name}"] = shape
    return shapes


def _expert_shapes(config: ModelConfig) -> dict[str, Shape]:
    assert config.moe is not None, "the layer has experts"
    names, hidden, inner = expert_names(config), config.hidden_size, config.moe.intermediate_size
    shapes: dict[str, Shape] = {names.router: (config.moe.num_experts, hidden)}
    for number in range(config.moe.num_experts):
        shapes[names.of(number, names.gate)] = shapes[names.of(number, names.up)] = (inner, hidden)
        shapes[names.of(number, names.down)] = (hidden, inner)
    return shapes


def _mlp_shapes(config: ModelConfig) -> dict[str, Shape]:
    hidden, inner = config.hidden_size, config.intermediate_size
    products = {
        "mlp.gate_proj": ((inner, hidden), config.mlp_bias),
        "mlp.up_proj": ((inner, hidden), config.mlp_bias),
        "mlp.down_proj": ((hidden, inner), config.mlp_bias),
    }
    return _product_shapes(products)


def _product_shapes(products: Mapping[str, tuple[Shape, bool]]) -> dict[str, Shape]:
    shapes: dict[str, Shape] = {}
    for name, (shape, bias) in products.items():
        shapes[f"{name}.weight"] = shape
        if bias:
            shapes[f"{name}.bias"] = shape[:1]
    return shapes


def _layer_shapes(config: ModelConfig) -> dict[str, Shape]:
    """Without the feed-forward part."""
    hidden = config.hidden_size
    q, kv = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    products = {
        "self_attn.q_proj": ((q, hidden), config.qkv_bias),
        "self_attn.k_proj": ((kv, hidden), config.qkv_bias),
        "self_attn.v_proj": ((kv, hidden), config.qkv_bias),
        "self_attn.o_proj": ((hidden, q), config.out_bias),
    }
    shapes: dict[str, Shape] = {
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
    }
    if config.qk_norm:
        shapes["self_attn.q_norm.weight"] = shapes["self_attn.k_norm.weight"] = (config.head_dim,)
    return shapes | _product_shapes(products)


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
