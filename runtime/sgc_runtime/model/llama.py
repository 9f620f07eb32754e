"""The Llama family: Llama, Mistral, Qwen2, Qwen3, SmolLM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from sgc_kernels.attention.spec import AttentionMeta, AttentionPlan, AttentionShape
from sgc_kernels.linear import Linear, float32_product
from sgc_kernels.select import Kernels
from sgc_runtime.model.config import ModelConfig
from sgc_runtime.model.forward import ForwardBatch, KVTensors
from sgc_runtime.model.mlp import Mlp

_Table = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One layer; norms are `[width]`, products whatever form the kernels keep."""

    input_norm: torch.Tensor
    qkv: Linear  # hidden -> (num_heads + 2 * num_kv_heads) * head_dim
    q_norm: torch.Tensor | None  # [head_dim]
    k_norm: torch.Tensor | None
    out: Linear
    mlp_norm: torch.Tensor
    mlp: Mlp


@dataclass(frozen=True, slots=True)
class ModelWeights:
    embedding: torch.Tensor  # [vocab, hidden]
    layers: Sequence[LayerWeights]
    norm: torch.Tensor
    head: Linear  # hidden -> vocab
    inv_freq: torch.Tensor  # [head_dim / 2] float32
    rope_scale: float


class LlamaModel:
    """A decoder over paged keys and values. It holds no state between steps.

    `dtype` is that of weights, activations, keys and values; `device` holds all of them.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: ModelWeights,
        kernels: Kernels,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.config = config
        self.dtype = dtype
        self.device = device
        self.weights = weights
        self.kernels = kernels
        self.shape = AttentionShape(
            num_heads=config.num_heads,
            num_kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            scale=config.attention_scale,
            dtype=dtype,
        )

    @torch.inference_mode()
    def forward(
        self,
        batch: ForwardBatch,
        kv: KVTensors,
        hidden: Callable[..., torch.Tensor] | None = None,
    ) -> torch.Tensor:
        """Compute the new tokens (T > 0), write their keys and values into `kv`.

        Args:
            hidden: another way to compute what `self.hidden` does.

        Returns:
            `[L, vocab]` float32 logits of the rows `batch.logit_rows`, in their order.
        """
        plan = self.kernels.attention.plan(_attention_meta(batch), self.shape)
        tokens = (batch.input_ids, batch.positions, batch.out_slots)
        hidden = hidden or self.hidden
        return self.logits(hidden(*tokens, plan, kv, batch.logit_rows))

    def hidden(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        out_slots: torch.Tensor,
        plan: AttentionPlan,
        kv: KVTensors,
        wanted: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The layers alone, by any plan of attention.

        Args:
            ids, positions, out_slots: `[T]` int64, see `ForwardBatch`.
            wanted: `[L]` int64, rows of T; None: all.

        Returns:
            `[L, hidden]`, normalised: what the head takes.
        """
        weights, kernels, eps = self.weights, self.kernels, self.config.rms_eps
        table = kernels.rotary_table(positions, weights.inv_freq, weights.rope_scale, self.dtype)
        residual = weights.embedding.index_select(0, ids)
        x = kernels.rms_norm(residual, weights.layers[0].input_norm, eps)
        norms_behind = [*(layer.input_norm for layer in weights.layers[1:]), weights.norm]
        for i, (layer, norm_behind) in enumerate(zip(weights.layers, norms_behind, strict=True)):
            x = self._attention(i, layer, x, table, plan, out_slots, kv)
            if wanted is not None and i + 1 == len(weights.layers):
                x, residual = x[wanted], residual[wanted]  # from here on only these matter
                if x.shape[0] == 0:
                    return residual
            x = layer.out(x)
            x = kernels.add_rms_norm(x, residual, layer.mlp_norm, eps)
            x = layer.mlp(x, kernels)
            x = kernels.add_rms_norm(x, residual, norm_behind, eps)
        return x

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """`[L, hidden]` of `hidden` to `[L, vocab]` float32."""
        if hidden.shape[0] == 0:
            return torch.empty(0, self.config.vocab_size, device=self.device)
        return float32_product(self.weights.head, hidden)

    def _attention(
        self,
        index: int,
        layer: LayerWeights,
        x: torch.Tensor,
        table: _Table,
        plan: AttentionPlan,
        out_slots: torch.Tensor,
        kv: KVTensors,
    ) -> torch.Tensor:
        """`x` `[T, hidden]` to the heads' outputs `[T, num_heads * head_dim]`."""
        config, kernels = self.config, self.kernels
        q_heads, kv_heads = config.num_heads, config.num_kv_heads
        qkv = layer.qkv(x).view(-1, q_heads + 2 * kv_heads, config.head_dim)
        keys, values = kv.k[index], kv.v[index]
        if layer.q_norm is not None and layer.k_norm is not None:
            norms, eps = (layer.q_norm, layer.k_norm), config.rms_eps
            q = kernels.norm_turn_and_store(qkv, norms, eps, table, keys, values, out_slots)
        else:
            q = kernels.turn_and_store(qkv, table, keys, values, out_slots)
        heads = plan.run(q, keys, values, config.windows[index])
        return heads.reshape(x.shape[0], -1)


def _attention_meta(batch: ForwardBatch) -> AttentionMeta:
    return AttentionMeta(
        batch.qo_indptr,
        batch.kv_indptr,
        batch.kv_slots,
        batch.kv_ends,
        batch.grows,
        batch.shared,
    )
