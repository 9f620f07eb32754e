"""Tiny random models of the Llama family, and steps of our own model over a KV pool."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch
import transformers

from sgc_runtime.cache.kv_pool import KVPool
from sgc_runtime.model.config import ModelConfig
from sgc_runtime.model.forward import ForwardBatch
from sgc_runtime.model.loader import LoadedModel

SIZES = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN_ROPE = {
    "rope_type": "yarn",
    "rope_theta": 10_000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 64,
}


def tiny_config(kind: str) -> transformers.PretrainedConfig:
    """The config of one of the tiny models, by a short name."""
    llama, qwen2 = transformers.LlamaConfig, transformers.Qwen2Config
    if kind == "llama":
        return llama(**SIZES)
    if kind == "llama with wide layers":  # whole blocks of 32 columns and 16 rows
        wide = {"vocab_size": 112, "hidden_size": 64, "intermediate_size": 96}
        return llama(**{**SIZES, **wide})
    if kind == "llama tied, biases, one kv head, wide heads":
        own = {"num_key_value_heads": 1, "head_dim": 16, "attention_bias": True, "mlp_bias": True}
        return llama(**{**SIZES, **own}, tie_word_embeddings=True)
    if kind == "llama3 rope":
        return llama(**SIZES, rope_parameters=LLAMA3_ROPE)
    if kind == "yarn rope":
        return llama(**SIZES, rope_parameters=YARN_ROPE)
    if kind in ("linear rope", "dynamic rope"):
        rope = {"rope_type": kind.split()[0], "rope_theta": 1e4, "factor": 2.5}
        return llama(**SIZES, rope_parameters=rope)
    if kind == "mistral":
        return transformers.MistralConfig(**SIZES, sliding_window=9)
    if kind == "qwen2":
        return qwen2(**SIZES)
    if kind == "qwen2 windows":
        windows = {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1}
        return qwen2(**SIZES, **windows)
    if kind == "qwen3":
        return transformers.Qwen3Config(**SIZES, head_dim=16)
    if kind == "mixtral":
        return transformers.MixtralConfig(**SIZES, num_local_experts=5)
    if kind == "mixtral windows":
        one = {"num_local_experts": 3, "num_experts_per_tok": 1}
        return transformers.MixtralConfig(**SIZES, **one, sliding_window=9)
    if kind == "qwen3 moe":  # the second layer is dense
        own = {"head_dim": 16, "moe_intermediate_size": 24, "mlp_only_layers": [1]}
        experts = {"num_experts": 8, "num_experts_per_tok": 3, "norm_topk_prob": True}
        return transformers.Qwen3MoeConfig(**SIZES, **own, **experts)
    if kind == "qwen3 moe, windows, biases, each second layer, all shares":
        own = {"use_sliding_window": True, "sliding_window": 7, "attention_bias": True}
        experts = {"num_experts": 6, "num_experts_per_tok": 2, "decoder_sparse_step": 2}
        return transformers.Qwen3MoeConfig(**SIZES, **own, **experts, moe_intermediate_size=40)
    raise AssertionError(kind)


KINDS = (
    "llama",
    "llama tied, biases, one kv head, wide heads",
    "llama3 rope",
    "yarn rope",
    "linear rope",
    "dynamic rope",
    "mistral",
    "qwen2",
    "qwen2 windows",
    "qwen3",
    "mixtral",
    "mixtral windows",
    "qwen3 moe",
    "qwen3 moe, windows, biases, each second layer, all shares",
)


def tiny_model(kind: str, seed: int = 0) -> transformers.PreTrainedModel:
    """A random float32 model whose biases and norms differ from their start values too."""
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(tiny_config(kind), dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.eval()


def hf_logits(model: transformers.PreTrainedModel, ids: list[int]) -> torch.Tensor:
    """`[len(ids), vocab]`, all positions at once, by transformers."""
    with torch.inference_mode():
        logits: torch.Tensor = model(torch.tensor([ids])).logits[0]
    return logits


def saved(model: transformers.PreTrainedModel, folder: Path, **options: object) -> Path:
    model.save_pretrained(folder, **options)
    return folder


@dataclass
class Sequence:
    """A text in the pool: `ids[:done]` are computed already."""

    ids: list[int]
    slots: list[int]
    done: int = 0


class Runner:
    """Computes steps over a pool whose slots are shuffled and start as NaN."""

    def __init__(self, loaded: LoadedModel, num_slots: int = 512, seed: int = 0) -> None:
        self.loaded = loaded
        self.pool = new_pool(loaded.config, num_slots, loaded.model.dtype, loaded.model.device)
        order = torch.randperm(num_slots, generator=torch.Generator().manual_seed(seed))
        self.free: list[int] = order.tolist()

    def sequence(self, ids: list[int]) -> Sequence:
        slots, self.free = self.free[: len(ids)], self.free[len(ids) :]
        return Sequence(ids, slots)

    def fork(self, parent: Sequence, ids: list[int]) -> Sequence:
        """A sequence that goes on with `ids` after what is computed of `parent`."""
        shared = parent.done
        own = self.sequence(ids)
        return Sequence(parent.ids[:shared] + ids, parent.slots[:shared] + own.slots, shared)

    def step(self, work: list[tuple[Sequence, int]]) -> list[torch.Tensor]:
        """Compute the next n tokens of each sequence; the logits of all of them, by sequence."""
        batch = moved(make_batch(work), self.loaded.model.device)
        logits = self.loaded.model.forward(batch, self.pool).cpu()
        for sequence, count in work:
            sequence.done += count
        return list(logits.split([count for _, count in work]))


def new_pool(
    config: ModelConfig,
    num_slots: int,
    dtype: torch.dtype,
    device: torch.device,
) -> KVPool:
    shape = (config.num_layers, num_slots, config.num_kv_heads, config.head_dim)
    pool = KVPool(*shape, dtype, device)
    for tensor in (*pool.k, *pool.v):
        tensor.fill_(float("nan"))
    return pool


def moved(batch: ForwardBatch, device: torch.device) -> ForwardBatch:
    """The batch for a model on `device`."""
    names = ("input_ids", "positions", "out_slots", "kv_slots", "logit_rows")
    return replace(batch, **{name: getattr(batch, name).to(device) for name in names})


def make_batch(work: list[tuple[Sequence, int]], last_only: bool = False) -> ForwardBatch:
    ids, positions, out_slots, kv_slots = [], [], [], []
    qo, kv, last = [0], [0], []
    for sequence, count in work:
        end = sequence.done + count
        ids += sequence.ids[sequence.done : end]
        positions += range(sequence.done, end)
        out_slots += sequence.slots[sequence.done : end]
        kv_slots += sequence.slots[:end]
        qo.append(len(ids))
        kv.append(len(kv_slots))
        last.append(len(ids) - 1)
    return ForwardBatch(
        input_ids=torch.tensor(ids, dtype=torch.int64),
        positions=torch.tensor(positions, dtype=torch.int64),
        out_slots=torch.tensor(out_slots, dtype=torch.int64),
        qo_indptr=torch.tensor(qo, dtype=torch.int32),
        kv_indptr=torch.tensor(kv, dtype=torch.int32),
        kv_slots=torch.tensor(kv_slots, dtype=torch.int64),
        logit_rows=torch.tensor(last if last_only else range(len(ids)), dtype=torch.int64),
    )
