"""Steps of one token by the chain of fused products, in plain torch, against the text alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import pytest
import torch
from support.device import Fleet, check_that_logits_outlive_a_step, pool_of, runner_of
from support.model import saved, tiny_model

from sgc_kernels import fused_linear
from sgc_kernels.attention.spec import AttentionShape
from sgc_kernels.kv_store import norm_turn_and_store, turn_and_store
from sgc_kernels.linear import PlainLinear
from sgc_kernels.select import SingleKernels
from sgc_runtime.device.graphs import Body, Graphs, Recorded
from sgc_runtime.model.loader import LoadedModel, load_model
from sgc_runtime.model.single import SingleChain, single_chain


class TorchSingle:
    """`SingleAttention.run` in plain torch."""

    def __init__(self, shape: AttentionShape, device: torch.device) -> None:
        self.shape = shape

    def run(
        self,
        qkv: torch.Tensor,
        norms: tuple[torch.Tensor, torch.Tensor] | None,
        eps: float,
        table: tuple[torch.Tensor, torch.Tensor],
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        slots: torch.Tensor,
        start: torch.Tensor,
        length: torch.Tensor,
        out_slot: torch.Tensor,
        split: object,
        window: int | None,
        pdl: bool,
    ) -> torch.Tensor:
        parts = qkv.view(1, -1, self.shape.head_dim)
        if norms is None:
            q = turn_and_store(parts, table, k_cache, v_cache, out_slot)
        else:
            q = norm_turn_and_store(parts, norms, eps, table, k_cache, v_cache, out_slot)
        count = int(length)
        first = int(start) + max(0, count - (window or count))
        seen = slots[first : int(start) + count].long()
        query = q.view(self.shape.num_kv_heads, -1, self.shape.head_dim)
        shares = torch.einsum("hgd,thd->hgt", query, k_cache[seen]) * self.shape.scale
        return torch.einsum("hgt,thd->hgd", shares.softmax(-1), v_cache[seen]).reshape(1, -1)


def without_pdl(function: Any) -> Any:
    return lambda *args, pdl=False, **options: function(*args, **options)


KERNELS = SingleKernels(
    attention=TorchSingle,
    can_attend=lambda shape: True,
    split_for=lambda length: (1, 1) if length <= 56 else None,
    fused_linear=without_pdl(fused_linear.fused_linear),
    fused_gated_linear=without_pdl(fused_linear.fused_gated_linear),
    fits=lambda width: True,
    pdl=False,
)


def with_chain(loaded: LoadedModel) -> LoadedModel:
    """The model with plain products and the chain's kernels."""
    model = loaded.model
    rows = replace(model.kernels.rows, single=KERNELS)
    model.kernels = replace(model.kernels, rows=rows)
    return loaded


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3", "mistral"])
def test_one_sequence_by_the_chain(
    kind: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sgc_kernels.linear.can_pack", lambda *_: False)
    folder = saved(tiny_model(kind), tmp_path_factory.mktemp("model"))
    loaded = with_chain(load_model(folder, "float32"))
    assert type(loaded.model.weights.head) is PlainLinear
    assert isinstance(single_chain(loaded.model), SingleChain)
    fleet = Fleet(loaded, seed=3, rows=1)
    fleet.runner.warm_up()
    fleet.join()
    for _ in range(40):  # beyond what the chain takes
        fleet.step()
    graphs = fleet.runner.graphs
    assert graphs is not None
    assert {(1, "chain", (1, 1), turn) for turn in (0, 1)} <= set(graphs._entries)
    assert fleet.checked > 20


class SharedMemory:
    """What a recording made in its own memory is lost when another one runs, as that of CUDA
    graphs over one pool may be."""

    bytes_taken = 0

    def __init__(self) -> None:
        self.results: list[torch.Tensor] = []

    def record(self, body: Body) -> Recorded:
        self.results.append(body().clone())
        return _Shared(body, self.results[-1], self)


@dataclass(frozen=True, slots=True)
class _Shared:
    body: Body
    result: torch.Tensor
    memory: SharedMemory

    def replay(self) -> None:
        for result in self.memory.results:
            result.fill_(torch.nan)
        self.result.copy_(self.body())


def test_logits_outlive_the_next_step(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sgc_kernels.linear.can_pack", lambda *_: False)
    folder = saved(tiny_model("llama"), tmp_path_factory.mktemp("model"))
    loaded = with_chain(load_model(folder, "float32"))
    runner = runner_of(loaded, pool_of(loaded, 200), 2)
    assert runner.row_steps is not None
    runner.graphs = runner.row_steps.graphs = Graphs(SharedMemory(), 1 << 20)
    for order in product((1, 2), repeat=4):
        check_that_logits_outlive_a_step(runner, order)


def test_biased_gates_have_no_chain(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sgc_kernels.linear.can_pack", lambda *_: False)
    kind = "llama tied, biases, one kv head, wide heads"
    folder = saved(tiny_model(kind), tmp_path_factory.mktemp("model"))
    assert single_chain(with_chain(load_model(folder, "float32")).model) is None
