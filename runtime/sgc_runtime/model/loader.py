"""Loading a model from a Hugging Face directory or a GGUF file."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch

from sgc_ir.errors import ModelError
from sgc_kernels.moe import Experts
from sgc_kernels.select import select_kernels
from sgc_runtime.model.config import ModelConfig, check_sizes
from sgc_runtime.model.config_gguf import read_gguf_config
from sgc_runtime.model.config_hf import read_hf_config
from sgc_runtime.model.devices import find_device, use_device
from sgc_runtime.model.gguf_file import open_gguf
from sgc_runtime.model.kv_range import check_kv_dtype, keep_in_eight_bits
from sgc_runtime.model.llama import LayerWeights, LlamaModel, ModelWeights
from sgc_runtime.model.mlp import DenseMlp, Mlp, MoeMlp
from sgc_runtime.model.number_format import pick_dtype
from sgc_runtime.model.products import Products
from sgc_runtime.model.rope import rope_frequencies
from sgc_runtime.model.weights import WeightSource, check_weights, expert_names
from sgc_runtime.model.weights_gguf import GgufSource, rope_divisors
from sgc_runtime.model.weights_safetensors import SafetensorsSource

_EMBEDDING = "model.embed_tokens"
_HEAD = "lm_head"


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model ready to run. `name` is its file's or directory's name without ending."""

    model: LlamaModel
    config: ModelConfig
    name: str


def load_model(
    path: str | os.PathLike[str],
    dtype: str | torch.dtype | None = None,
    device: str | torch.device = "cpu",
    weights: str = "auto",
    kept_in: Path | None = None,
    attention: str = "auto",
    deterministic: bool = False,
    kv_dtype: str = "auto",
) -> LoadedModel:
    """Load a Hugging Face directory or a `.gguf` file.

    Args:
        dtype: float32, bfloat16 or float16 (a name or torch's object); None: bfloat16 on a GPU
            and on CPUs with instructions for it, else float32.
        device: a torch device.
        weights: `auto`, `dense`, `int4` or `int8`; see `Products`.
        kept_in: a directory for a copy of converted weights, which later processes map instead
            of converting again; see `Converted`.
        attention, deterministic: see `select_kernels`.
        kv_dtype: `fp8`: keys and values in 8 bits, see `keep_in_eight_bits`; `auto`: in `dtype`.

    Raises:
        ModelError: the model is missing, damaged, incomplete or of an unsupported kind, or the
            device or the attention cannot be had.
    """
    place = Path(path)
    where = find_device(device)
    use_device(where)
    number_format = pick_dtype(dtype, where)
    check_kv_dtype(kv_dtype, where)
    config, source = _open(place)
    check_sizes(config, place)
    check_weights(config, source)
    if config.moe is not None and weights in ("int4", "int8"):
        raise ModelError(f"weights={weights}: experts are not rounded: leave weights at auto")
    group = config.num_heads // config.num_kv_heads
    try:
        kernels = select_kernels(
            where, number_format, config.head_dim, group, attention, deterministic
        )
    except ValueError as error:  # it names what was asked for
        raise ModelError(" ".join(str(error).split())) from error
    except ImportError as error:
        asked = "deterministic=True" if deterministic else f"attention={attention}"
        line = " ".join(str(error).split())
        raise ModelError(f"{asked} is not to be had here: {line}") from error
    products = Products(source, kernels, where, number_format, weights, kept_in)
    loaded = _Assembly(config, products, where).build()
    products.finish()
    # Beside the first calls, which are not to wait for the disk; not lost when the process ends.
    threading.Thread(target=products.converted.save, name="sgc-keep", daemon=False).start()
    model = LlamaModel(config, loaded, kernels, number_format, where)
    if kv_dtype == "fp8":
        keep_in_eight_bits(model)
    return LoadedModel(model, config, _name(place))


def _name(place: Path) -> str:
    return place.stem if place.is_file() else place.resolve().name


def _open(place: Path) -> tuple[ModelConfig, WeightSource]:
    if place.is_dir():
        return read_hf_config(place), SafetensorsSource(place)
    if not place.exists():
        raise ModelError(f"no model at {str(place)!r}: give a Hugging Face directory or .gguf file")
    file = open_gguf(place)
    config = read_gguf_config(file, rope_divisors(file))
    return config, GgufSource(file, config)


class _Assembly:
    """Puts tensors together into the weights that the model computes with."""

    def __init__(self, config: ModelConfig, products: Products, device: torch.device) -> None:
        self._config = config
        self._products = products
        self._device = device

    def build(self) -> ModelWeights:
        config, products = self._config, self._products
        inv_freq, scale = rope_frequencies(config.rope, config.head_dim)
        # Reading, dequantising and packing release the interpreter lock for most of their time.
        with ThreadPoolExecutor(
            torch.get_num_threads(), "sgc-load", use_device, (self._device,)
        ) as pool:
            embedding = pool.submit(products.tensor, f"{_EMBEDDING}.weight")
            if config.tie_embeddings:
                head = pool.submit(products.tied, _EMBEDDING, embedding.result)
            else:
                head = pool.submit(products.linear, [_HEAD], False, is_head=True)
            layers = list(pool.map(self._layer, range(config.num_layers)))
        return ModelWeights(
            embedding=embedding.result(),
            layers=layers,
            norm=products.tensor("model.norm.weight"),
            head=head.result(),
            inv_freq=inv_freq.to(self._device),
            rope_scale=scale,
        )

    def _layer(self, index: int) -> LayerWeights:
        config, products, stem = self._config, self._products, f"model.layers.{index}."
        attention = stem + "self_attn."
        qkv = [attention + f"{part}_proj" for part in "qkv"]
        return LayerWeights(
            input_norm=products.tensor(stem + "input_layernorm.weight"),
            qkv=products.linear(qkv, config.qkv_bias),
            q_norm=products.tensor(attention + "q_norm.weight") if config.qk_norm else None,
            k_norm=products.tensor(attention + "k_norm.weight") if config.qk_norm else None,
            out=products.linear([attention + "o_proj"], config.out_bias),
            mlp_norm=products.tensor(stem + "post_attention_layernorm.weight"),
            mlp=self._experts(stem) if config.has_experts(index) else self._mlp(stem + "mlp."),
        )

    def _experts(self, stem: str) -> Mlp:
        moe, names = self._config.moe, expert_names(self._config)
        assert moe is not None, "the layer has experts"

        def stacked(*parts: str) -> torch.Tensor:
            each = range(moe.num_experts)
            return self._products.stacked([[stem + names.of(i, p) for p in parts] for i in each])

        router = self._products.tensor(stem + names.router)
        gate_up, down = stacked(names.gate, names.up), stacked(names.down)
        return MoeMlp(Experts(router, gate_up, down, moe.top_k, moe.renormalise))

    def _mlp(self, stem: str) -> Mlp:
        products, bias = self._products, self._config.mlp_bias
        return DenseMlp(
            gate_up=products.linear([stem + "gate_proj", stem + "up_proj"], bias),
            down=products.linear([stem + "down_proj"], bias),
        )
