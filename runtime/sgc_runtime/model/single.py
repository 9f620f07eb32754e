"""A step of one token as a chain of kernels that each begin while the one before is running.

Products hold their weights before they wait, and include norm, residual and gate; attention is one
launch. Five kernels a layer (programmatic dependent launch, see `sgc_kernels.gpu.gemv`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from sgc_kernels.linear import Linear, PlainLinear
from sgc_kernels.select import SingleKernels
from sgc_kernels.step import StepTensors
from sgc_runtime.model.forward import KVTensors
from sgc_runtime.model.llama import LayerWeights, LlamaModel
from sgc_runtime.model.mlp import DenseMlp


@dataclass(frozen=True, slots=True)
class _Layer:
    weights: LayerWeights
    qkv: PlainLinear
    out: PlainLinear
    gate_up: PlainLinear
    down: PlainLinear


class SingleChain:
    """The chain for one model; one step at a time. Made by `single_chain`."""

    def __init__(self, model: LlamaModel, kernels: SingleKernels, layers: list[_Layer]) -> None:
        self._model, self._kernels, self._layers = model, kernels, layers
        self._attention = kernels.attention(model.shape, model.device)

    def split(self, length: int) -> Any | None:
        """How attention over up to `length` tokens is split; None: the chain is not for so many."""
        return self._kernels.split_for(length)

    def logits(
        self, step: StepTensors, slots: torch.Tensor, kv: KVTensors, split: Any, out: torch.Tensor
    ) -> torch.Tensor:
        """`out`, with the logits.

        Args:
            step: of one token.
            slots: int32, see `StepTensors.starts`.
            out: `[1, vocab]` float32.
        """
        model, weights = self._model, self._model.weights
        table = model.kernels.rotary_table(
            step.positions, weights.inv_freq, weights.rope_scale, model.dtype
        )
        x = weights.embedding.index_select(0, step.ids)
        for index, layer in enumerate(self._layers):
            x = self._layer(index, layer, x, table, step, slots, kv, split)
        head = weights.head
        assert isinstance(head, PlainLinear)
        own = (weights.norm, model.config.rms_eps)
        fused = self._kernels.fused_linear
        return fused(x, head.weight, norm=own, out=out, pdl=self._kernels.pdl)

    def _layer(
        self,
        index: int,
        layer: _Layer,
        x: torch.Tensor,
        table: tuple[torch.Tensor, torch.Tensor],
        step: StepTensors,
        slots: torch.Tensor,
        kv: KVTensors,
        split: Any,
    ) -> torch.Tensor:
        weights, config = layer.weights, self._model.config
        fused, pdl, eps = self._kernels.fused_linear, self._kernels.pdl, config.rms_eps
        norms = None
        if weights.q_norm is not None and weights.k_norm is not None:
            norms = (weights.q_norm, weights.k_norm)
        # What begins early reads what the step's first kernels write: the first product waits.
        own = (weights.input_norm, eps)
        qkv = fused(x, layer.qkv.weight, layer.qkv.bias, norm=own, pdl=pdl and index > 0)
        heads = self._attention.run(
            qkv,
            norms,
            eps,
            table,
            kv.k[index],
            kv.v[index],
            slots,
            step.starts,
            step.lens,
            step.out_slots,
            split,
            config.windows[index],
            pdl,
        )
        x = fused(heads, layer.out.weight, layer.out.bias, residual=x, pdl=pdl)
        own = (weights.mlp_norm, eps)
        gated = self._kernels.fused_gated_linear(x, layer.gate_up.weight, norm=own, pdl=pdl)
        return fused(gated, layer.down.weight, layer.down.bias, residual=x, pdl=pdl)


def single_chain(model: LlamaModel) -> SingleChain | None:
    """The chain, where the device has its kernels and all weights are plain."""
    kernels = model.kernels.rows.single
    if kernels is None or not kernels.can_attend(model.shape):
        return None
    layers = [_plain(layer) for layer in model.weights.layers]
    known = [layer for layer in layers if layer is not None]
    plain_head = type(model.weights.head) is PlainLinear and model.weights.head.bias is None
    if len(known) < len(layers) or not plain_head:
        return None
    widths = {linear.weight.shape[1] for layer in known for linear in (layer.qkv, layer.down)}
    return SingleChain(model, kernels, known) if all(map(kernels.fits, widths)) else None


def _plain(layer: LayerWeights) -> _Layer | None:
    if type(layer.mlp) is not DenseMlp:
        return None
    linears: list[Linear] = [layer.qkv, layer.out, layer.mlp.gate_up, layer.mlp.down]
    plain = [linear for linear in linears if type(linear) is PlainLinear]
    if len(plain) < len(linears) or plain[2].bias is not None:
        return None
    return _Layer(layer, *plain)
