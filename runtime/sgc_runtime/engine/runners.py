"""Which runner computes the steps of an engine, with the memory that it works on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from sgc_runtime.cache.kv_pool import KVPool
from sgc_runtime.engine.budgets import Budgets
from sgc_runtime.engine.host_runner import HostRunner, Model
from sgc_runtime.engine.options import EngineOptions
from sgc_runtime.engine.profile import Profiling
from sgc_runtime.engine.runner import Runner
from sgc_runtime.model.config import ModelConfig

if TYPE_CHECKING:  # on a GPU alone
    from sgc_runtime.device.runner import DeviceRunner


def kv_format(options: EngineOptions, dtype: torch.dtype) -> torch.dtype:
    """The numbers of keys and values beside a model that computes in `dtype`."""
    return torch.float8_e4m3fn if options.kv_dtype == "fp8" else dtype


def make_runner(
    model: Model,
    config: ModelConfig,
    options: EngineOptions,
    budgets: Budgets,
    kv_dtype: torch.dtype,
    device: torch.device,
    profile: Profiling,
) -> Runner:
    """The device's own runner, over a new KV pool."""
    shape = (config.num_layers, budgets.kv_tokens, config.num_kv_heads, config.head_dim)
    if device.type != "cuda":
        return HostRunner(model, KVPool(*shape, kv_dtype, device), device, profile)
    kv = KVPool(*shape, kv_dtype, device, spare=1)
    max_context = min(config.max_positions, budgets.kv_tokens)
    runner = device_runner(model, config, options, kv, budgets, max_context, device, profile)
    runner.warm_up()
    return runner


def device_runner(
    model: Model,
    config: ModelConfig,
    options: EngineOptions,
    kv: KVPool,
    budgets: Budgets,
    max_context: int,
    device: torch.device,
    profile: Profiling,
) -> DeviceRunner:
    """The runner of a GPU over `kv`, with all memory that it holds from the beginning."""
    from sgc_runtime.device.runner import DeviceOptions, DeviceRunner
    from sgc_runtime.device.sampler import DeviceSampler
    from sgc_runtime.model.llama import LlamaModel

    assert isinstance(model, LlamaModel), "models on a GPU have rows of decode"
    sizes = DeviceOptions(
        max_running=budgets.max_running,
        max_context=max_context,
        padding_slot=kv.num_slots,
        graphs=options.graphs,
        graph_bytes=budgets.graph_bytes,
        max_graph_tokens=options.max_graph_tokens,
    )
    sampler = DeviceSampler(config.vocab_size, budgets.max_running, device)
    return DeviceRunner(model, kv, sampler, sizes, profile)
