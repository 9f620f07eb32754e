"""Mixtures of experts against transformers, on tiny random models; the layers' logits are compared
in `test_llama.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from support.model import Runner, hf_logits, saved, tiny_model

from sgc_ir.errors import ModelError
from sgc_kernels.moe import Experts, moe, route
from sgc_runtime.model.loader import load_model
from sgc_runtime.model.mlp import DenseMlp, MoeMlp

KINDS = [
    "mixtral",
    "mixtral windows",
    "qwen3 moe",
    "qwen3 moe, windows, biases, each second layer, all shares",
]
IDS = [5, 77, 31, 8, 8, 90, 42]
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def greedy(runner: Runner, ids: list[int], count: int) -> list[int]:
    sequence = runner.sequence(ids + [0] * count)
    (logits,) = runner.step([(sequence, len(ids))])
    for place in range(len(ids), len(ids) + count):
        sequence.ids[place] = int(logits[-1].argmax())
        (logits,) = runner.step([(sequence, 1)])
    return sequence.ids[len(ids) :]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
def test_greedy_ids(kind: str, device: str, tmp_path: Path) -> None:
    model = tiny_model(kind, seed=3)
    runner = Runner(load_model(saved(model, tmp_path), torch.float32, device))
    expected = model.generate(
        torch.tensor([IDS]), max_new_tokens=24, do_sample=False, eos_token_id=None, pad_token_id=0
    )
    assert greedy(runner, IDS, 24) == expected[0, len(IDS) :].tolist()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
def test_logits_of_many_tokens(kind: str, device: str, tmp_path: Path) -> None:
    model = tiny_model(kind, seed=4)
    runner = Runner(load_model(saved(model, tmp_path), torch.float32, device))
    ids = [3 + i * i % 90 for i in range(180)]
    (logits,) = runner.step([(runner.sequence(ids), len(ids))])
    torch.testing.assert_close(logits, hf_logits(model, ids), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["mixtral", "qwen3 moe"])
def test_bfloat16_stays_close(kind: str, device: str, tmp_path: Path) -> None:
    model = tiny_model(kind, seed=5)
    runner = Runner(load_model(saved(model, tmp_path), "bfloat16", device))
    (logits,) = runner.step([(runner.sequence(IDS), len(IDS))])
    expected = hf_logits(model, IDS)
    # Experts whose scores are nearly equal may change places.
    assert float((logits - expected).abs().mean()) < 0.1 * float(expected.std())


def test_which_layers_have_experts(tmp_path: Path) -> None:
    layers = load_model(saved(tiny_model("qwen3 moe"), tmp_path), torch.float32).model
    forms = [type(layer.mlp) for layer in layers.weights.layers]
    assert forms == [MoeMlp, DenseMlp, MoeMlp]


def test_experts_lie_behind_each_other(tmp_path: Path) -> None:
    folder = saved(tiny_model("mixtral"), tmp_path)
    stored = load_file(folder / "model.safetensors")
    mlp = load_model(folder, torch.float32).model.weights.layers[1].mlp
    assert isinstance(mlp, MoeMlp)
    experts = mlp.experts
    assert (experts.top_k, experts.renormalise) == (2, True)
    stem = "model.layers.1.block_sparse_moe.experts."
    for number in range(5):
        gate, down, up = (stored[f"{stem}{number}.w{i}.weight"] for i in (1, 2, 3))
        assert torch.equal(experts.gate_up[number], torch.cat((gate, up)))
        assert torch.equal(experts.down[number], down)


def test_the_reference_is_the_sum_over_experts() -> None:
    torch.manual_seed(1)
    experts = Experts(torch.randn(6, 16), torch.randn(6, 16, 16), torch.randn(6, 16, 8), 3, False)
    x = torch.randn(11, 16)
    chosen, weights = route(x, experts)
    shares = torch.zeros(11, 6).scatter(1, chosen, weights)
    gate, up = torch.einsum("th,ewh->tew", x, experts.gate_up).chunk(2, dim=-1)
    every = torch.einsum("tew,ehw->teh", torch.nn.functional.silu(gate) * up, experts.down)
    expected = torch.einsum("teh,te->th", every, shares)
    torch.testing.assert_close(moe(x, experts), expected, atol=1e-4, rtol=1e-5)
    assert torch.equal((shares > 0).sum(-1), torch.full((11,), 3))


def refused(folder: Path, words: str, **options: Any) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        load_model(folder, torch.float32, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        ("mixtral", {"num_local_experts": 6}, r"lacks tensors .*experts\.5\."),
        ("mixtral", {"num_local_experts": 4}, r"has unexpected tensors .*experts\.4\."),
        ("mixtral", {"num_local_experts": 0}, "num_local_experts is 0"),
        ("mixtral", {"num_local_experts": 10**9}, "num_local_experts is 1000000000, expected at"),
        ("mixtral", {"num_experts_per_tok": 9}, "num_experts_per_tok is 9, expected at most the 5"),
        ("mixtral", {"intermediate_size": 40}, "shape"),
        ("qwen3 moe", {"moe_intermediate_size": 40}, "shape"),
        ("qwen3 moe", {"mlp_only_layers": []}, r"lacks tensors model\.layers\.1\.mlp\.experts"),
        ("qwen3 moe", {"mlp_only_layers": "none"}, "mlp_only_layers is 'none', expected a list"),
        ("qwen3 moe", {"decoder_sparse_step": 0}, "decoder_sparse_step is 0"),
        ("qwen3 moe", {"norm_topk_prob": 1}, "norm_topk_prob is 1"),
    ],
)
def test_configs_that_do_not_fit(
    kind: str, changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    place = saved(tiny_model(kind), tmp_path) / "config.json"
    place.write_text(json.dumps({**json.loads(place.read_text()), **changes}))
    refused(tmp_path, words)


def test_both_names_for_the_number_of_experts(tmp_path: Path) -> None:
    place = saved(tiny_model("qwen3 moe"), tmp_path) / "config.json"
    values = json.loads(place.read_text())
    values["num_experts"] = values.pop("num_local_experts")
    place.write_text(json.dumps(values))
    moe_config = load_model(tmp_path, torch.float32).config.moe
    assert moe_config is not None
    assert moe_config.num_experts == 8


def test_weights_that_do_not_fit(tmp_path: Path) -> None:
    place = saved(tiny_model("qwen3 moe"), tmp_path) / "model.safetensors"
    weights = load_file(place)
    name = "model.layers.2.mlp.experts.3.up_proj.weight"
    save_file({**weights, name: torch.ones(3, 3)}, place)
    refused(tmp_path, r"experts\.3\.up_proj\.weight has shape \[3, 3\]")
    weights.pop(name)
    save_file(weights, place)
    refused(tmp_path, rf"lacks tensors {name}")


def test_experts_are_not_rounded(tmp_path: Path) -> None:
    folder = saved(tiny_model("mixtral"), tmp_path)
    refused(folder, "experts are not rounded", weights="int8")


def test_shards(tmp_path: Path) -> None:
    model: transformers.PreTrainedModel = tiny_model("qwen3 moe", seed=6)
    saved(model, tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    runner = Runner(load_model(tmp_path, torch.float32))
    (logits,) = runner.step([(runner.sequence(IDS), len(IDS))])
    torch.testing.assert_close(logits, hf_logits(model, IDS), atol=1e-4, rtol=1e-4)
