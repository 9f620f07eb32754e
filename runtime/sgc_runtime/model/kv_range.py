"""Brings keys and values into the range of 8-bit numbers, by powers of two within the weights.

A number of e4m3 has four binary digits from 2^-6 up to 448, so what is lost in it is the same share
of a number whatever its size; a scale matters at both ends only, where numbers saturate or lose
digits, and a power of two is as good as any. The largest key and value of each key head are
measured at load, over a trial of random ids, and brought to an eighth of 448 or less, so that other
texts have room. The factors go into the weights: what makes the keys of a head is divided and its
queries are multiplied; the same for values and the product behind attention. That changes no digit
of any other number, so the model computes what it did, and no kernel needs to know of a scale.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch

from sgc_ir.errors import ModelError
from sgc_kernels.kv_store import EIGHT_BITS, LARGEST
from sgc_kernels.linear import Linear
from sgc_runtime.cache.kv_pool import KVPool
from sgc_runtime.model.config import ModelConfig
from sgc_runtime.model.forward import ForwardBatch
from sgc_runtime.model.llama import LayerWeights, LlamaModel

_ROOM = 8  # how much larger than in the trial keys and values may be
_MOST_BITS = 6  # of a factor's exponent: weights in float16 must not leave their range
_PROMPTS, _TOKENS = 4, 256  # of the trial
_LEAST_CAPABILITY = (8, 9)  # that converts e4m3


def check_kv_dtype(kv_dtype: str, device: torch.device) -> None:
    """Raises ModelError if the device has no kernels for such keys and values."""
    if kv_dtype != "fp8":
        return
    where = str(device)
    if device.type == "cuda":
        capability = torch.cuda.get_device_capability(device)
        if capability >= _LEAST_CAPABILITY:
            return
        where = f"{device}, a GPU of capability {capability[0]}.{capability[1]}"
    raise ModelError(
        f"kv_dtype=fp8 needs a GPU of capability 8.9 or more, not {where}: leave kv_dtype at auto"
    )


@torch.inference_mode()
def keep_in_eight_bits(model: LlamaModel) -> None:
    """Have `model` keep keys and values in a pool of `EIGHT_BITS` from now on; computes a trial."""
    config = model.config
    keys, values = (_factors(largest) for largest in largest_of_trial(model))
    layers = [
        _scaled(layer, config, keys[i], values[i]) for i, layer in enumerate(model.weights.layers)
    ]
    model.weights = dataclasses.replace(model.weights, layers=layers)
    model.shape = dataclasses.replace(model.shape, kv_dtype=EIGHT_BITS)


def largest_of_trial(model: LlamaModel) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest key and value of each head in a trial, `[layers, kv_heads]` float32."""
    config = model.config
    tokens = min(_TOKENS, config.max_positions)
    count = _PROMPTS * tokens
    shape = (config.num_layers, count, config.num_kv_heads, config.head_dim)
    pool = KVPool(*shape, model.dtype, model.device)
    model.forward(_trial(config.vocab_size, tokens, model.device), pool)
    keys, values = (
        torch.stack([layer.float().abs().amax(dim=(0, 2)) for layer in layers])
        for layers in (pool.k, pool.v)
    )
    return keys, values


def _trial(vocab_size: int, tokens: int, device: torch.device) -> ForwardBatch:
    count = _PROMPTS * tokens
    random = torch.Generator().manual_seed(0)
    slots = torch.arange(count, device=device)
    indptr = torch.arange(0, count + 1, tokens, dtype=torch.int32)
    return ForwardBatch(
        input_ids=torch.randint(vocab_size, (count,), generator=random).to(device),
        positions=slots % tokens,
        out_slots=slots,
        qo_indptr=indptr,
        kv_indptr=indptr,
        kv_slots=slots,
        logit_rows=slots[:0],
    )


def _factors(largest: torch.Tensor) -> torch.Tensor:
    """Powers of two that bring `largest` to a share of the format's largest number."""
    known = largest.isfinite() & (largest > 0)
    bits = torch.log2(LARGEST / _ROOM / torch.where(known, largest, LARGEST / _ROOM)).floor()
    return torch.exp2(bits.clamp(-_MOST_BITS, _MOST_BITS))


def _scaled(
    layer: LayerWeights, config: ModelConfig, keys: torch.Tensor, values: torch.Tensor
) -> LayerWeights:
    """The layer with the keys and values of its heads times `keys` and `values` (`[kv_heads]`)."""
    group = config.num_heads // config.num_kv_heads
    q_norm, k_norm = layer.q_norm, layer.k_norm
    if q_norm is not None and k_norm is not None:  # one norm for all heads, behind the product
        least = float(keys.min())
        q_norm, k_norm = q_norm / least, k_norm * least
        keys = torch.ones_like(keys)
    heads = torch.cat([(1 / keys).repeat_interleave(group), keys, values])
    outs = heads.repeat_interleave(config.head_dim)
    columns = (1 / values).repeat_interleave(group * config.head_dim)
    return dataclasses.replace(
        layer,
        qkv=_times(layer.qkv, rows=outs),
        out=_times(layer.out, columns=columns),
        q_norm=q_norm,
        k_norm=k_norm,
    )


def _times(
    linear: Linear, rows: torch.Tensor | None = None, columns: torch.Tensor | None = None
) -> Linear:
    """The product with the rows and bias, or the columns, of its weight times numbers."""
    weight = getattr(linear, "weight", None)
    if weight is None:
        return _Scaled(linear, before=columns, behind=rows)
    bias = getattr(linear, "bias", None)
    if columns is not None:
        weight = weight * columns.to(weight.dtype)
    if rows is not None:
        weight = weight * rows.to(weight.dtype)[:, None]
        bias = None if bias is None else bias * rows.to(bias.dtype)
    made: Linear = type(linear)(weight, bias)  # type: ignore[call-arg]
    return made


@dataclass(frozen=True, slots=True)
class _Scaled:
    """A product whose weight is kept in some other form."""

    product: Linear
    before: torch.Tensor | None  # [in]
    behind: torch.Tensor | None  # [out]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self.before is not None:
            x = x * self.before.to(x.dtype)
        y = self.product(x)
        return y if self.behind is None else y * self.behind.to(y.dtype)
