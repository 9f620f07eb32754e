"""The model config that a GGUF file states in its metadata."""

from __future__ import annotations

from dataclasses import replace

from sgc_ir.errors import ModelError
from sgc_runtime.model.config import ARCHITECTURES, MAX_LAYERS, ModelConfig, RopeConfig
from sgc_runtime.model.config_hf import Fields
from sgc_runtime.model.gguf_file import GgufFile

# MistralForCausalLM is written as "llama" too; what differs between them lies in the tensors.
_ARCHITECTURES = {"llama": "LlamaForCausalLM"} | {
    gguf: hf for hf, gguf in ARCHITECTURES.items() if gguf in ("qwen2", "qwen3")
}
ROPE_DIVISORS = "rope_freqs.weight"


def read_gguf_config(file: GgufFile, rope_divisors: tuple[float, ...] = ()) -> ModelConfig:
    """The config of an opened GGUF file.

    Args:
        rope_divisors: values of the tensor `ROPE_DIVISORS`, where the file has it.

    Raises:
        ModelError: an architecture or rope variant that is not supported, a value that is missing
            or of the wrong type.
    """
    architecture, fields = _architecture(file)
    num_layers = fields.integer("block_count", most=MAX_LAYERS)
    num_heads = fields.integer("attention.head_count")
    hidden_size = fields.integer("embedding_length")
    head_dim = _head_dim(fields, hidden_size // num_heads)
    has_window = bool(fields.get("attention.sliding_window"))  # 0: none
    window = fields.integer("attention.sliding_window") if has_window else None
    return ModelConfig(
        architecture=architecture,
        num_layers=num_layers,
        hidden_size=hidden_size,
        intermediate_size=fields.integer("feed_forward_length"),
        num_heads=num_heads,
        num_kv_heads=fields.integer("attention.head_count_kv", num_heads),
        head_dim=head_dim,
        vocab_size=_vocab_size(file),
        max_positions=fields.integer("context_length"),
        rms_eps=fields.number("attention.layer_norm_rms_epsilon"),
        rope=_rope(fields, rope_divisors),
        tie_embeddings="output.weight" not in file.tensors,
        windows=(window,) * num_layers,
        qkv_bias=architecture == "Qwen2ForCausalLM" or "blk.0.attn_q.bias" in file.tensors,
        out_bias="blk.0.attn_output.bias" in file.tensors,
        mlp_bias="blk.0.ffn_gate.bias" in file.tensors,
        qk_norm=architecture == "Qwen3ForCausalLM",
        eos_token_ids=_eos_token_ids(file),
    )


def _architecture(file: GgufFile) -> tuple[str, Fields]:
    """Hugging Face's name, and the metadata under the architecture's own prefix."""
    stem = str(file.metadata.get("general.architecture"))
    if stem not in _ARCHITECTURES:
        raise ModelError(
            f"{file.path}: architecture {stem!r} is not supported: known are "
            f"{', '.join(_ARCHITECTURES)}"
        )
    prefix = stem + "."
    own = {k.removeprefix(prefix): v for k, v in file.metadata.items() if k.startswith(prefix)}
    fields = Fields(own, file.path)
    if fields.get("expert_count"):
        raise ModelError(
            f"{file.path}: mixtures of experts are not read from GGUF files: give the model's "
            "Hugging Face directory"
        )
    return _ARCHITECTURES[stem], fields


def _head_dim(fields: Fields, default: int) -> int:
    head_dim = fields.integer("attention.key_length", default)
    if fields.integer("attention.value_length", head_dim) != head_dim:
        raise fields.wrong("attention.value_length", f"{head_dim}, the size of keys")
    if fields.integer("rope.dimension_count", head_dim) != head_dim:
        raise fields.wrong("rope.dimension_count", f"{head_dim} (partial rotary is not supported)")
    return head_dim


def _vocab_size(file: GgufFile) -> int:
    """Rows of the embedding: the metadata may be silent, or count the tokenizer's tokens only."""
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise ModelError(f"{file.path}: tensor token_embd.weight is missing: fetch the model again")
    return embedding.shape[0]


def _rope(fields: Fields, divisors: tuple[float, ...]) -> RopeConfig:
    kind = str(fields.get("rope.scaling.type") or "none")
    # Older files state a linear factor without a type.
    old_factor = fields.number("rope.scale_linear", 0.0)
    if kind == "none" and old_factor:
        kind = "linear"
    rope = RopeConfig(
        kind="default" if kind == "none" else kind,
        theta=fields.number("rope.freq_base", 10_000.0),
        factor=fields.number("rope.scaling.factor", old_factor) or 1.0,
        original_max_positions=fields.integer(
            "rope.scaling.original_context_length", fields.integer("context_length")
        ),
    )
    if not divisors:
        return rope
    if rope.kind != "default":
        raise ModelError(
            f"{fields.place}: rope_freqs together with rope variant {kind!r} is not supported"
        )
    return replace(rope, kind="divided", divisors=divisors)


def _eos_token_ids(file: GgufFile) -> tuple[int, ...]:
    found: dict[int, None] = {}
    for key in ("eos_token_id", "eot_token_id"):
        token = file.metadata.get(f"tokenizer.ggml.{key}")
        if isinstance(token, int):
            found[token] = None
    return tuple(found)
