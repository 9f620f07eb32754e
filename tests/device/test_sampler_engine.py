"""An engine whose steps and ids come from the device's runner and sampler, here on a CPU, beside
one that computes them on the host."""

from __future__ import annotations

from typing import Any

import pytest
from support.jumps import byte_tokenizer
from support.local import prompts
from support.on_off import Answer, Asked, answer_all, differences, tiny_model

import sgc_runtime.engine.assemble as assemble
from sgc_runtime.cache.kv_pool import KVPool
from sgc_runtime.device.runner import DeviceOptions, DeviceRunner
from sgc_runtime.device.sampler import DeviceSampler
from sgc_runtime.model.loader import LoadedModel
from sgc_runtime.tokenizer.tokenizer import Tokenizer, load_tokenizer

CASES: dict[str, dict[str, Any]] = {
    "free": {},
    "penalties": {"frequency_penalty": 0.5, "repetition_penalty": 1.2},
    "bias": {"logit_bias": {"70": 6.0, "75": -100.0}, "min_tokens": 5},
    "heal": {"heal": True},
    "object": {"regex": r'\{"name": "[a-z]{1,9}", "age": [0-9]{1,3}\}'},
    "words": {"regex": r"[a-z ]{1,20}\.", "presence_penalty": 0.7},
    "stop": {"stop": ("e",)},
}
SETTINGS: tuple[tuple[int, dict[str, Any]], ...] = (
    (16, {"overlap": True}),
    (16, {"overlap": False}),
    (16, {"overlap": True, "graphs": False, "jump": False}),
    (16, {"overlap": True, "kv_tokens": 400, "reserve": 0.0}),
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("tokenizer")
    byte_tokenizer(folder)
    return load_tokenizer(folder)


@pytest.fixture(scope="module")
def model(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return tiny_model(tokenizer, tmp_path_factory.mktemp("model"))


def device_runner(
    model: Any, config: Any, options: Any, budgets: Any, dtype: Any, device: Any, profile: Any
) -> DeviceRunner:
    shape = (config.num_layers, budgets.kv_tokens, config.num_kv_heads, config.head_dim)
    kv = KVPool(*shape, dtype, device, spare=1)
    sizes = DeviceOptions(
        max_running=budgets.max_running,
        max_context=min(config.max_positions, budgets.kv_tokens),
        padding_slot=kv.num_slots,
        graphs=options.graphs,
        max_graph_tokens=64,
    )
    sampler = DeviceSampler(config.vocab_size, budgets.max_running, device)
    return DeviceRunner(model, kv, sampler, sizes, profile)


def asked(params: dict[str, Any]) -> list[Asked]:
    starts = prompts(2)
    return [
        Asked(f"{name} {i}", starts[i], {"max_tokens": 16, **case, **params}, i)
        for name, case in CASES.items()
        for i in range(len(starts))
    ]


def answers(
    model: LoadedModel, tokenizer: Tokenizer, calls: list[Asked], batch: int, **options: Any
) -> list[Answer]:
    return answer_all(model, tokenizer, calls, batch, **options)[0]


def test_greedy_gens_are_those_of_the_host(
    model: LoadedModel, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = asked({"temperature": 0.0, "logprobs": True, "top_logprobs": 2})
    expected = answers(model, tokenizer, calls, 16)
    monkeypatch.setattr(assemble, "make_runner", device_runner)
    for batch, options in SETTINGS:
        found = answers(model, tokenizer, calls, batch, **options)
        assert not differences(calls, expected, found), options


def test_seeded_gens_do_not_depend_on_settings(
    model: LoadedModel, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assemble, "make_runner", device_runner)
    calls = asked({"temperature": 1.0, "top_p": 0.95, "logprobs": True})
    expected = answers(model, tokenizer, calls, 1)
    for batch, options in SETTINGS[:2]:
        found = answers(model, tokenizer, calls, batch, **options)
        assert not differences(calls, expected, found), options
