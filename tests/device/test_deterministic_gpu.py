"""With `deterministic` a graph of decode rows, a step by kernel and the text alone give the same
bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
import torch
from support.device import Fleet
from support.model import Runner, saved, tiny_model

from sgc_runtime.engine.request import Request
from sgc_runtime.model.loader import load_model

pytestmark = pytest.mark.gpu


class ExactFleet(Fleet):
    def _check(
        self, requests: Sequence[Request], logits: torch.Tensor, ends: Mapping[Request, int]
    ) -> None:
        for i, request in enumerate(requests):
            ids = request.tokens[: ends[request]].tolist()
            runner = Runner(self.reference, num_slots=len(ids))
            (alone,) = runner.step([(runner.sequence(ids), len(ids))])
            assert torch.equal(logits[i].cpu(), alone[-1])
            self.checked += 1


@pytest.mark.parametrize(
    "form", [{"max_graph_tokens": 64}, {"max_graph_tokens": 6}, {"graphs": False}]
)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("kind", ["llama", "qwen3", "mistral", "mixtral"])
def test_the_same_bits(
    kind: str, dtype: str, form: dict[str, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = saved(tiny_model(kind), tmp_path_factory.mktemp("model"))
    loaded = load_model(folder, dtype, "cuda", deterministic=True)
    fleet = ExactFleet(loaded, seed=4, **form)
    chance = fleet.chance
    for _ in range(40):
        if len(fleet.flying) < fleet.most and chance.random() < 0.3:
            fleet.join()
        if len(fleet.flying) > 2 and chance.random() < 0.1:
            fleet.leave(chance.choice(fleet.flying))
        settled = [r for r in fleet.flying if fleet.done[r] > 4 and not r.pending]
        if settled and chance.random() < 0.2:
            fleet.roll_back(chance.choice(settled))
        fleet.step()
    assert fleet.checked > 25
