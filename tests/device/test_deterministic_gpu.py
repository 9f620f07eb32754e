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
    fleet.live(40, back=0.2, moves=0.0)
    assert fleet.checked > 25
