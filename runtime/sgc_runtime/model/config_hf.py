"""The model config that a Hugging Face directory states in `config.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sgc_ir.errors import ModelError
from sgc_runtime.model.config import (
    ARCHITECTURES,
    MAX_EXPERTS,
    MAX_LAYERS,
    ModelConfig,
    MoeConfig,
    RopeConfig,
)

_MODEL_TYPES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
}
# What transformers takes where the file is silent.
_MAX_POSITIONS = {
    "LlamaForCausalLM": 2048,
    "MistralForCausalLM": 131_072,
    "MixtralForCausalLM": 131_072,
}
_RMS_EPS = {"MixtralForCausalLM": 1e-5}
_ROPE_THETA = {"MixtralForCausalLM": 1e6}
_QWEN_MAX_POSITIONS = 32_768
_WINDOW = 4096
_QWEN_WINDOW_LAYERS = 28


def read_hf_config(folder: Path) -> ModelConfig:
    """Read `config.json`, and the end-of-text ids of `generation_config.json` if there is one.

    Raises:
        ModelError: a file that is missing or no JSON object, an architecture or rope variant that
            is not supported, a value that is missing or of the wrong type.
    """
    fields = Fields(_read_object(folder / "config.json"), folder / "config.json")
    architecture = _architecture(fields)
    _refuse_unsupported(fields)
    num_layers = fields.integer("num_hidden_layers", most=MAX_LAYERS)
    num_heads = fields.integer("num_attention_heads")
    hidden_size = fields.integer("hidden_size")
    max_positions = fields.integer(
        "max_position_embeddings", _MAX_POSITIONS.get(architecture, _QWEN_MAX_POSITIONS)
    )
    qwen3, qwen2 = architecture == "Qwen3ForCausalLM", architecture == "Qwen2ForCausalLM"
    llama, qwen3_moe = architecture == "LlamaForCausalLM", architecture == "Qwen3MoeForCausalLM"
    attention_bias = (llama or qwen3 or qwen3_moe) and fields.flag("attention_bias", False)
    return ModelConfig(
        architecture=architecture,
        num_layers=num_layers,
        hidden_size=hidden_size,
        intermediate_size=fields.integer("intermediate_size"),
        num_heads=num_heads,
        num_kv_heads=fields.integer("num_key_value_heads", num_heads),
        head_dim=fields.integer("head_dim", 128 if qwen3 else hidden_size // num_heads),
        vocab_size=fields.integer("vocab_size"),
        max_positions=max_positions,
        rms_eps=fields.number("rms_norm_eps", _RMS_EPS.get(architecture, 1e-6)),
        rope=_rope(fields, max_positions, _ROPE_THETA.get(architecture, 10_000.0)),
        tie_embeddings=fields.flag("tie_word_embeddings", False),
        windows=_windows(fields, architecture, num_layers),
        qkv_bias=qwen2 or attention_bias,
        out_bias=attention_bias,
        mlp_bias=llama and fields.flag("mlp_bias", False),
        qk_norm=qwen3 or qwen3_moe,
        eos_token_ids=_eos_token_ids(fields, folder),
        moe=_moe(fields, architecture, num_layers),
    )


class Fields:
    """Typed reading of a JSON object; every error names the file and the key."""

    def __init__(self, values: Mapping[str, Any], place: Path) -> None:
        self.values = values
        self.place = place

    def get(self, key: str) -> Any:
        """The value, None where it is missing or null."""
        return self.values.get(key)

    def integer(self, key: str, default: int | None = None, most: int | None = None) -> int:
        """A positive int, not above `most`."""
        value = self._value(key, default)
        if type(value) is not int or value <= 0:
            raise self.wrong(key, "a positive integer")
        if most is not None and value > most:
            raise self.wrong(key, f"at most {most}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self._value(key, default)
        if type(value) not in (int, float):
            raise self.wrong(key, "a number")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self._value(key, default)
        if type(value) is not bool:
            raise self.wrong(key, "true or false")
        return value

    def wrong(self, key: str, expected: str) -> ModelError:
        return ModelError(
            f"{self.place}: {key} is {self.values.get(key)!r}, expected {expected}: "
            "repair the file or fetch the model again"
        )

    def _value(self, key: str, default: Any) -> Any:
        value = self.values.get(key)
        return default if value is None else value


def _read_object(place: Path) -> dict[str, Any]:
    try:
        value = json.loads(place.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(
            f"cannot read {place} ({error.strerror}): give a Hugging Face model directory or a "
            ".gguf file"
        ) from error
    except ValueError as error:
        raise ModelError(f"{place} is no JSON ({error}): fetch the model again") from error
    if not isinstance(value, dict):
        raise ModelError(f"{place} is not a JSON object: fetch the model again")
    return value


def _architecture(fields: Fields) -> str:
    names = fields.get("architectures") or [_MODEL_TYPES.get(str(fields.get("model_type")))]
    name = names[0] if isinstance(names, list) and names else names
    if isinstance(name, str) and name in ARCHITECTURES:
        return name
    shown = name if name is not None else fields.get("model_type")
    raise ModelError(
        f"{fields.place}: architecture {shown!r} is not supported: known are "
        f"{', '.join(ARCHITECTURES)}"
    )


def _refuse_unsupported(fields: Fields) -> None:
    activation = fields.get("hidden_act") or "silu"
    if activation not in ("silu", "swish"):
        raise fields.wrong("hidden_act", "silu")
    if (quantization := fields.get("quantization_config")) is not None:
        method = quantization.get("quant_method") if isinstance(quantization, dict) else None
        raise ModelError(
            f"{fields.place}: weights quantised by {method!r} are not supported: give the "
            "unquantised model or a GGUF file"
        )


def _windows(fields: Fields, architecture: str, num_layers: int) -> tuple[int | None, ...]:
    if architecture == "LlamaForCausalLM":
        return (None,) * num_layers
    if architecture == "MixtralForCausalLM" and fields.get("sliding_window") is None:
        return (None,) * num_layers
    if architecture in ("MistralForCausalLM", "MixtralForCausalLM"):
        if _explicit_null(fields, "sliding_window"):
            return (None,) * num_layers
        return (fields.integer("sliding_window", _WINDOW),) * num_layers
    if not fields.flag("use_sliding_window", False) or _explicit_null(fields, "sliding_window"):
        return (None,) * num_layers
    window = fields.integer("sliding_window", _WINDOW)
    if architecture == "Qwen3MoeForCausalLM":
        return (window,) * num_layers
    kinds = fields.get("layer_types")
    if kinds is None:
        first = fields.get("max_window_layers")
        first = _QWEN_WINDOW_LAYERS if first is None else first
        if type(first) is not int:
            raise fields.wrong("max_window_layers", "an integer")
        return tuple(window if i >= first else None for i in range(num_layers))
    known = {"sliding_attention": window, "full_attention": None}
    if not isinstance(kinds, list) or len(kinds) != num_layers or not set(kinds) <= set(known):
        raise fields.wrong("layer_types", f"{num_layers} times one of {', '.join(known)}")
    return tuple(known[kind] for kind in kinds)


def _explicit_null(fields: Fields, key: str) -> bool:
    return key in fields.values and fields.values[key] is None


def _moe(fields: Fields, architecture: str, num_layers: int) -> MoeConfig | None:
    if architecture == "MixtralForCausalLM":
        return MoeConfig(
            num_experts=fields.integer("num_local_experts", 8, most=MAX_EXPERTS),
            top_k=fields.integer("num_experts_per_tok", 2),
            intermediate_size=fields.integer("intermediate_size"),
            renormalise=True,
            layers=(True,) * num_layers,
        )
    if architecture != "Qwen3MoeForCausalLM":
        return None
    key = "num_experts" if fields.get("num_local_experts") is None else "num_local_experts"
    return MoeConfig(
        num_experts=fields.integer(key, 128, most=MAX_EXPERTS),
        top_k=fields.integer("num_experts_per_tok", 8),
        intermediate_size=fields.integer("moe_intermediate_size", 768),
        renormalise=fields.flag("norm_topk_prob", False),
        layers=_layers_with_experts(fields, num_layers),
    )


def _layers_with_experts(fields: Fields, num_layers: int) -> tuple[bool, ...]:
    """Every so many layers one, unless it is listed as dense."""
    dense, every = fields.get("mlp_only_layers") or [], fields.integer("decoder_sparse_step", 1)
    if not isinstance(dense, list) or not all(type(layer) is int for layer in dense):
        raise fields.wrong("mlp_only_layers", "a list of layers")
    return tuple(i not in dense and (i + 1) % every == 0 for i in range(num_layers))


def _rope(fields: Fields, max_positions: int, theta: float) -> RopeConfig:
    """From `rope_parameters`, or the older `rope_scaling` with `rope_theta` beside it."""
    stated = fields.get("rope_scaling") or fields.get("rope_parameters") or {}
    if not isinstance(stated, dict):
        raise fields.wrong("rope_parameters", "an object")
    inherited = {key: fields.get(key) for key in ("rope_theta", "partial_rotary_factor")}
    rope = Fields({**inherited, **stated}, fields.place)
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if rope.number("partial_rotary_factor", 1.0) != 1.0:
        raise rope.wrong("partial_rotary_factor", "1.0 (others are not supported)")
    original = fields.integer(
        "original_max_position_embeddings",
        rope.integer("original_max_position_embeddings", max_positions),
    )
    factor = rope.number("factor", max_positions / original if kind == "yarn" else 1.0)
    attention = rope.get("attention_factor")
    return RopeConfig(
        kind=str(kind),
        theta=rope.number("rope_theta", theta),
        factor=factor,
        original_max_positions=original,
        low_freq_factor=rope.number("low_freq_factor", 1.0),
        high_freq_factor=rope.number("high_freq_factor", 4.0),
        beta_fast=rope.number("beta_fast", 32.0) or 32.0,
        beta_slow=rope.number("beta_slow", 1.0) or 1.0,
        truncate=rope.flag("truncate", True),
        attention_factor=None if attention is None else rope.number("attention_factor"),
        mscale=rope.number("mscale", 0.0),
        mscale_all_dim=rope.number("mscale_all_dim", 0.0),
    )


def _eos_token_ids(fields: Fields, folder: Path) -> tuple[int, ...]:
    """Those of the generation config first, then those of the config; each once."""
    sources = [fields]
    generation = folder / "generation_config.json"
    if generation.exists():
        sources.insert(0, Fields(_read_object(generation), generation))
    found: dict[int, None] = {}
    for source in sources:
        ids = source.get("eos_token_id")
        for token in ids if isinstance(ids, list) else [ids]:
            if type(token) is int:
                found[token] = None
            elif token is not None:
                raise source.wrong("eos_token_id", "an id or a list of ids")
    return tuple(found)
