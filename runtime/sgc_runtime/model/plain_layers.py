"""The layers of a large step over memory of its own: what is equal in all of them is prepared once.

`LlamaModel.hidden` makes new tensors in each layer, and looks at each of them before each launch;
with a thousand tokens the host takes as long for that as a GPU for the layer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from sgc_kernels.attention.spec import AttentionPlan, PreparedPlan
from sgc_kernels.linear import PlainLinear
from sgc_kernels.select import PreparedKernels
from sgc_runtime.model.forward import KVTensors
from sgc_runtime.model.llama import LayerWeights, LlamaModel
from sgc_runtime.model.mlp import DenseMlp

_Attentions = dict[int | None, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]
_GRAIN = 256  # numbers: tensors begin at multiples, as those from torch's allocator do


@dataclass(frozen=True, slots=True)
class _Product:
    turned: torch.Tensor  # [in, out]
    bias: torch.Tensor | None

    def __call__(self, x: torch.Tensor, out: torch.Tensor) -> None:
        """As `PlainLinear`, into `out`."""
        if self.bias is None:
            torch.mm(x, self.turned, out=out)
        else:
            torch.addmm(self.bias, x, self.turned, out=out)


@dataclass(frozen=True, slots=True)
class _Layer:
    weights: LayerWeights
    qkv: _Product
    out: _Product
    gate_up: _Product
    down: _Product


@dataclass(frozen=True, slots=True)
class _Memory:
    """What a layer computes, by tokens. Attention's part and the network's take turns."""

    qkv: torch.Tensor  # [T, all heads, head_dim]
    q: torch.Tensor  # [T, num_heads, head_dim]
    gate_up: torch.Tensor  # [T, 2 * intermediate]
    gated: torch.Tensor  # [T, intermediate]
    sums: torch.Tensor  # [T, hidden], to be added to the residual
    x: torch.Tensor  # [T, hidden], normalised


class PlainLayers:
    """The layers of one model. Made by `plain_layers`."""

    def __init__(self, model: LlamaModel, kernels: PreparedKernels, layers: list[_Layer]) -> None:
        self._model, self._kernels, self._layers = model, kernels, layers

    def hidden(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        out_slots: torch.Tensor,
        plan: AttentionPlan,
        kv: KVTensors,
        wanted: torch.Tensor,
    ) -> torch.Tensor:
        """As `LlamaModel.hidden`."""
        model, weights = self._model, self._model.weights
        kernels, eps = model.kernels, model.config.rms_eps
        table = kernels.rotary_table(positions, weights.inv_freq, weights.rope_scale, model.dtype)
        residual = weights.embedding.index_select(0, ids)
        first = weights.layers[0]
        x = kernels.rms_norm(residual, first.input_norm, eps)
        memory, prepared = self._memory(len(ids)), self._kernels
        turn = prepared.turn_and_store(
            memory.qkv, _norms(first), eps, table, (kv.k[0], kv.v[0]), out_slots, memory.q
        )
        norm = prepared.add_rms_norm(memory.sums, residual, first.mlp_norm, eps, memory.x)
        gate = prepared.silu_mul(memory.gate_up, memory.gated)
        qkv, last = memory.qkv.view(len(ids), -1), len(self._layers) - 1
        attends = self._attentions(plan, memory.q, kv)
        for i, layer in enumerate(self._layers):
            layer.qkv(x, qkv)
            turn(kv.k[i], kv.v[i], *(_norms(layer.weights) or ()))
            heads = attends[model.config.windows[i]](kv.k[i], kv.v[i])
            if i == last:
                break
            layer.out(heads, memory.sums)
            norm(layer.weights.mlp_norm)
            layer.gate_up(memory.x, memory.gate_up)
            gate()
            layer.down(memory.gated, memory.sums)
            norm(weights.layers[i + 1].input_norm)
            x = memory.x
        return self._rest(heads[wanted], residual[wanted])  # from here on only these matter

    def _attentions(self, plan: AttentionPlan, q: torch.Tensor, kv: KVTensors) -> _Attentions:
        """Attention by window, to be called with keys and values, to `[T, all heads' outputs]`."""
        out, windows = torch.empty_like(q), set(self._model.config.windows)
        flat = out.view(len(q), -1)

        def of(window: int | None) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
            if not isinstance(plan, PreparedPlan):
                return lambda k, v: plan.run(q, k, v, window).reshape(len(q), -1)
            attend = plan.prepared(q, kv.k[0], kv.v[0], window, out)

            def into_out(k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
                attend(k, v)
                return flat

            return into_out

        return {window: of(window) for window in windows}

    def _rest(self, heads: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """What comes behind attention in the last layer."""
        if heads.shape[0] == 0:
            return residual
        weights, kernels, eps = self._model.weights, self._model.kernels, self._model.config.rms_eps
        layer = weights.layers[-1]
        x = kernels.add_rms_norm(layer.out(heads), residual, layer.mlp_norm, eps)
        return kernels.add_rms_norm(layer.mlp(x, kernels), residual, weights.norm, eps)

    def _memory(self, tokens: int) -> _Memory:
        config, layer = self._model.config, self._layers[0]
        qkv, hidden = layer.qkv.turned.shape[1], layer.qkv.turned.shape[0]
        q, gated = config.num_heads * config.head_dim, layer.down.turned.shape[0]
        begin, behind = _rounded(tokens * qkv), _rounded(tokens * 2 * gated)
        size = max(begin + tokens * q, behind + tokens * gated)
        dtype, device = self._model.dtype, self._model.device
        whole = torch.empty(size, dtype=dtype, device=device)

        def part(first: int, width: int) -> torch.Tensor:
            return whole[first : first + tokens * width].view(tokens, width)

        return _Memory(
            qkv=part(0, qkv).view(tokens, -1, config.head_dim),
            q=part(begin, q).view(tokens, -1, config.head_dim),
            gate_up=part(0, 2 * gated),
            gated=part(behind, gated),
            sums=torch.empty(tokens, hidden, dtype=dtype, device=device),
            x=torch.empty(tokens, hidden, dtype=dtype, device=device),
        )


def plain_layers(model: LlamaModel) -> PlainLayers | None:
    """The layers, where the device has launches to prepare and all weights are plain."""
    if model.kernels.prepared is None:
        return None
    layers = [_plain(layer) for layer in model.weights.layers]
    known = [layer for layer in layers if layer is not None]
    return PlainLayers(model, model.kernels.prepared, known) if len(known) == len(layers) else None


def _plain(layer: LayerWeights) -> _Layer | None:
    if type(layer.mlp) is not DenseMlp:
        return None
    linears = (layer.qkv, layer.out, layer.mlp.gate_up, layer.mlp.down)
    plain = [linear for linear in linears if type(linear) is PlainLinear]
    if len(plain) < len(linears):
        return None
    return _Layer(layer, *(_Product(linear.weight.t(), linear.bias) for linear in plain))


def _norms(layer: LayerWeights) -> tuple[torch.Tensor, torch.Tensor] | None:
    if layer.q_norm is None or layer.k_norm is None:
        return None
    return layer.q_norm, layer.k_norm


def _rounded(size: int) -> int:
    return -(-size // _GRAIN) * _GRAIN
